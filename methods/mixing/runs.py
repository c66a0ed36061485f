"""Short runs of one recipe with different source weights, and the mixture that scores best."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console

from agentgym import RecipeError, load, seed_of
from agentgym.storage import RunFolder

from .quadratic import MAX_SOURCES, QuadraticFit, fit_quadratic

if TYPE_CHECKING:
    from agentgym.training import Recipe

FILE = "mixtures.json"
LEAST_WEIGHT = 1e-9
"""The weight of a set that a run should not train on.

It is above 0, so that the set's validation tasks are still measured.
"""


@dataclass(frozen=True, slots=True)
class MixtureSearch:
    """The result of a mixture search.

    Attributes:
        sources: names of the sets. mixtures: [n, k] their weights in each run. scores: [n] the score of each run.
        fit: the model of the score, fitted to the runs. best: [k] the weights with the highest fitted score.
    """

    sources: Sequence[str]
    mixtures: Sequence[Sequence[float]]
    scores: Sequence[float]
    fit: QuadraticFit
    best: Sequence[float]

    def to_json(self) -> dict[str, Any]:
        """Return the search as plain data."""
        return {
            "sources": list(self.sources),
            "runs": [
                {"weights": list(weights), "score": score}
                for weights, score in zip(self.mixtures, self.scores, strict=True)
            ],
            "fit": {
                "matrix": self.fit.matrix.tolist(),
                "ridge": self.fit.ridge,
                "leave_one_out": self.fit.leave_one_out,
                "spread": self.fit.spread,
            },
            "best": {"weights": list(self.best), "predicted": self.fit.score(self.best)},
        }


def mixtures_of(count: int, runs: int, seed: int) -> list[list[float]]:
    """Return [runs][count] weights: first each source alone, then all with equal weights, then draws from the uniform
    Dirichlet distribution.

    A larger number of runs begins with the same mixtures.
    """
    mixtures = [[float(row == column) for column in range(count)] for row in range(count)]
    mixtures.append([1 / count] * count)
    for number in range(len(mixtures), runs):
        draws = random.Random(seed_of("mixture", seed, number))
        shares = [draws.expovariate(1.0) for _ in range(count)]
        mixtures.append([share / sum(shares) for share in shares])
    return mixtures[:runs]


def search_mixture(
    recipe: Recipe, folder: Path, *, runs: int, seed: int = 0, metric: str | None = None, console: Console | None = None
) -> MixtureSearch:
    """Train a recipe with several mixtures of its sources, fit their scores and find the best mixture.

    Finished runs in the folder are reused, and interrupted ones are resumed. The result is written
    to mixtures.json there.

    Args:
        runs: number of mixtures; at least one more than there are sources. seed: of the mixtures after the centre.
        metric: the metric of the last validation, which is the score; by default the mean over the sources of
            `success/<set>`.
    Raises: RecipeError for a recipe without sources or with more than 12, too few runs, a folder of another search, or
        a metric that is not logged; errors of `train`.
    Source: MoDoMoDo, Liang et al. 2025, arXiv:2505.24871.
    """
    from agentgym.training import train  # imports torch, which the command's help does not need

    sources = [source.set for source in recipe.tasks.sources if source.weight]
    if len(sources) < 2:
        raise RecipeError("tasks.sources must list at least two sets for a search of mixtures.")
    if len(sources) > MAX_SOURCES:
        raise RecipeError(
            f"tasks.sources lists {len(sources)} sets, but a search of mixtures allows at most {MAX_SOURCES}."
        )
    if runs <= len(sources):
        raise RecipeError(
            f"{runs} runs are too few for {len(sources)} sources. At least {len(sources) + 1} are needed for each "
            f"source alone and their equal mixture; the fit has {len(sources) * (len(sources) + 1) // 2} coefficients."
        )
    _write_or_compare(folder, recipe, seed)
    mixtures = mixtures_of(len(sources), runs, seed)
    scores: list[float] = []
    for number, weights in enumerate(mixtures):
        run = folder / f"run-{number:02d}"
        if console is not None:
            mixture = ", ".join(f"{name} {weight:.2f}" for name, weight in zip(sources, weights, strict=True))
            console.print(f"run {number + 1} of {runs}: {mixture}", markup=False, highlight=False, soft_wrap=True)
        if not (run / "report.html").is_file():
            weights_by_set = dict(zip(sources, weights, strict=True))
            train(_with_weights(recipe, weights_by_set, run.name), folder=run, resume=run.is_dir(), console=console)
        scores.append(_score(RunFolder(run), sources, metric))
    fit = fit_quadratic(mixtures, scores)
    search = MixtureSearch(sources, mixtures, scores, fit, fit.best().tolist())
    (folder / FILE).write_text(json.dumps(search.to_json(), indent=1), encoding="utf-8")
    return search


def _write_or_compare(folder: Path, recipe: Recipe, seed: int) -> None:
    """Write recipe and seed; raise RecipeError if the folder holds a search with others."""
    folder.mkdir(parents=True, exist_ok=True)
    file, text = folder / "search.toml", f"# seed of the mixtures: {seed}\n{recipe.to_toml()}"
    if not file.is_file():
        file.write_text(text, encoding="utf-8")
    elif file.read_text(encoding="utf-8") != text:
        raise RecipeError(
            f"{folder} already contains a search with another recipe or seed ({file}). Give another --out."
        )


def _with_weights(recipe: Recipe, weights: dict[str, float], name: str) -> Recipe:
    """Return the recipe of one run, with its own weights and without stages that measure on held-out tasks."""
    sources = tuple(
        source.model_copy(update={"weight": max(weights[source.set], LEAST_WEIGHT)})
        for source in recipe.tasks.sources
        if source.weight
    )
    # A mixture is chosen on validation tasks, never on held-out ones.
    stages = [stage for stage in recipe.stages if not load("stages", stage.kind).result.startswith("evaluation/")]
    tasks = recipe.tasks.model_copy(update={"sources": sources})
    return recipe.model_copy(update={"name": f"{recipe.name}-{name}", "tasks": tasks, "stage": stages})


def _score(run: RunFolder, sources: Sequence[str], metric: str | None) -> float:
    """Return a run's score, from its last validation during training. Raises: RecipeError."""
    rows = [row for row in run.metrics() if row["phase"].endswith("validation")]
    needed = [metric] if metric is not None else [f"success/{name}" for name in sources]
    if not rows:
        raise RecipeError(f"{run.path} has no validation, so it cannot be scored. Lower train.validate_every.")
    if missing := [name for name in needed if name not in rows[-1]]:
        raise RecipeError(
            f"{run.path}: the last validation has no metric {missing[0]!r}. Raise train.validate_tasks, so that each "
            f"set has some, or name another metric: {', '.join(sorted(rows[-1]))}."
        )
    return float(np.mean([rows[-1][name] for name in needed]))
