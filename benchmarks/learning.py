"""The value of turn-level credit: estimators at equal budget, same warm start, several seeds.

    python benchmarks/learning.py [--seeds 3] [--steps 30] [--jobs 2] [--out runs/learning] [--scale cpu|gpu]
    python benchmarks/learning.py --recipe recipes/service.toml --estimators "grpo(turn_weight=0.0); potential_shaping"
    python benchmarks/learning.py --estimators "return_to_go; grpo; gigpo | gated(threshold=1.0)"

The recipe is by default that of the quickstart, on SQL. Without --estimators, four arms distinguish the reward's
content from its placement:
    outcome      `grpo` on the outcome only
    flattened    `grpo` on outcome + the sum of the turn rewards: more content, no placement
    return_to_go the same turn rewards, placed on their turns
    mt_grpo      the same, placed by zero-padded turn index

`flattened` against `outcome` shows the value of the content; `return_to_go` and `mt_grpo` against `flattened` show the
value of the placement. With --estimators there is an arm for each; options and wrappers as in recipes. All arms of a
seed begin with the same weights and play as many episodes; further episodes of an estimator (`vine`) show in its
minutes. Every arm is compared with the first, seed by seed and task by task.

Writes results.json, table.md and learning.svg. Arms that finished are not run again; an interrupted one continues.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
from figures import keep_table
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from training_runs import (
    COLOURS,
    DRAWS,
    from_start,
    mean_interval,
    share_first_measurement,
    train_quietly,
    warm_started,
)

from agentgym.credit import CreditWarning, estimator
from agentgym.errors import AgentGymError
from agentgym.evaluation.record import Evaluation
from agentgym.training import Recipe

RECIPE = Path(__file__).parents[1] / "recipes" / "quickstart.toml"
ARMS = {
    "outcome": "grpo(turn_weight=0.0)",
    "flattened": "grpo",
    "return_to_go": "return_to_go",
    "mt_grpo": "mt_grpo",
}
GPU = [
    "policy.tiny.hidden=1024",
    "policy.tiny.layers=16",
    "policy.tiny.heads=16",
    "policy.tiny.kv_heads=8",
    "policy.tiny.head_dim=64",
    "policy.tiny.vocabulary=4096",
    "machine.device=cuda",
    "train.optimiser.learning_rate=5e-5",
    "warm_start.learning_rate=3e-4",
    "machine.lockstep=false",
]
COMMON = ["train.save_every=10", "train.keep_checkpoints=1", "train.validate_every=5", "evaluate.control={}"]


@dataclass(frozen=True)
class Arm:
    """One estimator under one seed: `label` in tables, `text` as recipes write it."""

    label: str
    text: str
    seed: int

    @property
    def folder(self) -> str:
        """Return a file name: the label if it is a valid name, else its words and a few digits of its hash."""
        if re.fullmatch(r"\w+", self.label):
            return self.label
        words = re.sub(r"\W+", "-", self.label).strip("-")[:60]
        return f"{words}-{hashlib.sha256(self.label.encode()).hexdigest()[:6]}"


def warm_start(seed: int, out: str, sets: list[str], file: Path = RECIPE) -> str:
    """Return the model that every arm of a seed begins with."""
    recipe = Recipe.load(file, [*sets, f"seed={seed}", "train.steps=0"])
    return str(warm_started(recipe, Path(out) / f"seed-{seed}" / "warm_start"))


def run_arm(arm: Arm, out: str, start: str, sets: list[str], file: Path = RECIPE) -> dict[str, Any]:
    """Train one arm from the shared start and read its results."""
    folder = Path(out) / f"seed-{arm.seed}" / arm.folder
    share_first_measurement(folder)
    recipe = _recipe(arm, start, sets, file)
    run, stratum = train_quietly(recipe, folder), recipe.evaluate.stratum
    curve, trained = run.metrics("validation"), run.metrics("train")
    before, after = (Evaluation.load(folder / "evaluation" / f"{when}.json") for when in ("before", "after"))
    return {
        "arm": arm.label,
        "estimator": arm.text,
        "seed": arm.seed,
        "steps": [row["step"] for row in curve],
        "success": [row["success"] for row in curve],
        "calls_ok": [row.get("calls_ok", 0.0) for row in curve],
        "before": before.success(stratum).value,
        "held_out": after.success(stratum).value,
        "tasks_before": _by_task(before, stratum),
        "tasks": _by_task(after, stratum),
        "held_out_all": after.success().value,
        "minutes": sum(row.get("step_time", 0.0) for row in trained) / 60,
    }


def _by_task(evaluation: Evaluation, stratum: str | None) -> dict[str, float]:
    return {row.task: float(np.mean(row.observed)) for row in evaluation.select(stratum) if row.observed}


def _recipe(arm: Arm, start: str, sets: list[str], file: Path = RECIPE) -> Recipe:
    """Return the benchmark's recipe with the shared start as its model."""
    data = Recipe.load(file, [*sets, f"seed={arm.seed}"]).model_dump(exclude_none=True)
    data["train"]["estimator"] = arm.text
    return from_start(data, Path(start), str(file))


def steps_to(target: float, run: dict[str, Any]) -> int | None:
    """Return the first validated step at which success reached the target."""
    return next((s for s, x in zip(run["steps"], run["success"], strict=True) if x >= target), None)


def paired_interval(these: list[dict[str, Any]], those: list[dict[str, Any]]) -> tuple[float, float, float]:
    """Return the mean held-out difference of two arms, over their common seeds and tasks, with its 95 % interval.

    The bootstrap draws seeds, and tasks within them, because both are samples; what makes a seed or a task hard for
    both arms cancels. With one seed, the interval is only over tasks. NaN if the arms have nothing in common.
    """
    others = {run["seed"]: run for run in those}
    deltas = []
    for run in these:
        if run["seed"] in others:
            theirs = others[run["seed"]]["tasks"]
            common = sorted(run["tasks"].keys() & theirs.keys())
            deltas.append(np.array([run["tasks"][task] - theirs[task] for task in common]))
    deltas = [delta for delta in deltas if len(delta)]
    if not deltas:
        return float("nan"), float("nan"), float("nan")
    rng = np.random.default_rng(0)
    by_seed = np.stack([d[rng.integers(0, len(d), (DRAWS, len(d)))].mean(axis=1) for d in deltas])  # [seeds, draws]
    drawn = by_seed[rng.integers(0, len(deltas), (DRAWS, len(deltas))), np.arange(DRAWS)[:, None]].mean(axis=1)
    mean = float(np.mean([delta.mean() for delta in deltas]))
    return mean, *(float(x) for x in np.quantile(drawn, [0.025, 0.975]))


COLUMNS = [
    "estimator",
    "tool execution",
    "exact match (validation)",
    "before training",
    "held out",
    "gain, paired",
    "against the first, paired",
    "held out, all strata",
    "steps to 80 % by seed",
    "mean of the curve",
    "minutes",
]
SHOWN_COLUMNS = (0, 3, 4, 5, 6)  # what fits on a screen


def table(runs: list[dict[str, Any]], labels: Sequence[str]) -> list[list[str]]:
    """Return one row per arm; intervals are over seeds, the paired interval is over seeds and tasks."""
    by_arm = {label: [run for run in runs if run["arm"] == label] for label in labels}
    rows = []
    for label in labels:
        if not (mine := by_arm[label]):
            rows.append([label, *["-"] * (len(COLUMNS) - 1)])
            continue
        reached = [steps_to(0.8, run) for run in mine]
        starts = [{**run, "tasks": run["tasks_before"]} for run in mine]
        gain = _as_text(paired_interval(mine, starts), signed=True)
        first = "" if label == labels[0] else _as_text(paired_interval(mine, by_arm[labels[0]]), signed=True)
        rows.append(
            [
                label,
                _as_text(mean_interval([run["calls_ok"][-1] for run in mine])),
                _as_text(mean_interval([run["success"][-1] for run in mine])),
                _as_text(mean_interval([run["before"] for run in mine])),
                _as_text(mean_interval([run["held_out"] for run in mine])),
                gain,
                first,
                _as_text(mean_interval([run["held_out_all"] for run in mine])),
                ", ".join("-" if step is None else str(step) for step in reached),
                _as_text(mean_interval([float(np.mean(run["success"])) for run in mine])),
                f"{np.mean([run['minutes'] for run in mine]):.1f}",
            ]
        )
    return rows


def _as_text(estimate: tuple[float, float, float], *, signed: bool = False) -> str:
    mean, low, high = (f"{x:+.2f}" if signed else f"{x:.2f}" for x in estimate)
    return f"{mean} [{low}, {high}]"


def plot(runs: list[dict[str, Any]], labels: Sequence[str], path: Path) -> None:
    """Plot validation success over steps: mean and interval over the seeds, one line per arm."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    for number, label in enumerate(labels):
        mine = [run for run in runs if run["arm"] == label]
        if not mine:
            continue
        length = min(len(run["steps"]) for run in mine)
        curves = np.array([run["success"][:length] for run in mine])
        steps = mine[0]["steps"][:length]
        bounds = np.array([mean_interval(list(column)) for column in curves.T])
        colour, style = COLOURS[number % len(COLOURS)], ("-", "--", ":")[number // len(COLOURS) % 3]
        axes.plot(steps, bounds[:, 0], label=label, color=colour, linestyle=style, linewidth=2)
        axes.fill_between(steps, bounds[:, 1], bounds[:, 2], color=colour, alpha=0.15, linewidth=0)
    axes.set(xlabel="training step", ylabel="success on validation tasks", ylim=(0, 1))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right", fontsize=8)
    axes.set_title("Mean over seeds, 95 % bootstrap interval over seeds", fontsize=10)
    figure.tight_layout()
    figure.savefig(path)


def arms_of(text: str | None) -> dict[str, str]:
    """Return label and estimator of each arm. Raises: AgentGymError for an invalid estimator, before any run."""
    chosen = ARMS if text is None else {part.strip(): part.strip() for part in text.split(";") if part.strip()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CreditWarning)
        for arm in chosen.values():
            estimator(arm)
    return dict(chosen)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--estimators", metavar="A;B", help="estimators and compositions, with ; between")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--recipe", type=Path, default=RECIPE, help="by default that of the quickstart")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", default="runs/learning")
    parser.add_argument("--scale", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any key of the recipe")
    chosen = parser.parse_args()
    console, runs, failed = Console(), [], []
    try:
        estimators = arms_of(chosen.estimators)
        scale = GPU if chosen.scale == "gpu" else ["machine.threads=1"]
        sets = [*scale, *COMMON, f"train.steps={chosen.steps}", *chosen.set]
        Recipe.load(chosen.recipe, sets)
    except AgentGymError as error:
        console.print(f"[red]{escape(str(error))}")
        return 2
    labels = list(estimators)
    with ProcessPoolExecutor(chosen.jobs) as pool:
        starts = {pool.submit(warm_start, seed, chosen.out, sets, chosen.recipe): seed for seed in range(chosen.seeds)}
        jobs: dict[Future[dict[str, Any]], Arm] = {}
        for ready in as_completed(starts):  # the arms of a seed begin while other seeds still warm up
            for label, text in estimators.items():
                arm = Arm(label, text, starts[ready])
                jobs[pool.submit(run_arm, arm, chosen.out, ready.result(), sets, chosen.recipe)] = arm
        for done in as_completed(jobs):
            arm = jobs[done]
            try:
                runs.append(done.result())
            except AgentGymError as error:  # an estimator that this task set cannot feed; the others go on
                failed.append(f"{arm.label}, seed {arm.seed}: {error}")
                continue
            line = f"{len(runs)}/{len(jobs)}  {arm.label}, seed {arm.seed}: held out {runs[-1]['held_out']:.3f}"
            console.print(line, markup=False)
            report(runs, labels, Path(chosen.out), plotted=False)
    runs.sort(key=lambda run: (labels.index(run["arm"]), run["seed"]))
    table = Table(*(COLUMNS[column] for column in SHOWN_COLUMNS), title=f"{chosen.steps} steps, {chosen.seeds} seeds")
    for row in report(runs, labels, Path(chosen.out), plotted=True):
        table.add_row(*(escape(row[column]) for column in SHOWN_COLUMNS))
    keep_table(table)
    console.print(table, f"All figures: {Path(chosen.out) / 'table.md'}", sep="\n", soft_wrap=True)
    for line in failed:
        console.print(f"[red]failed[/] {escape(line)}")
    return 1 if failed else 0


def report(runs: list[dict[str, Any]], labels: Sequence[str], out: Path, *, plotted: bool) -> list[list[str]]:
    """Write the results so far; without results, keep an earlier report. Returns: the rows of the table."""
    rows = table(runs, labels)
    if not runs:
        return rows
    (out / "results.json").write_text(json.dumps(runs, indent=1))
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    lines = [COLUMNS, ["---"] * len(COLUMNS), *cells]
    (out / "table.md").write_text("".join("| " + " | ".join(line) + " |\n" for line in lines))
    if plotted:
        plot(runs, labels, out / "learning.svg")
    return rows


if __name__ == "__main__":
    sys.exit(main())
