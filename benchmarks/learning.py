"""What turn-level credit is worth: four arms, equal budget, same warm start, several seeds, on the SQL set.

    python benchmarks/learning.py [--seeds 3] [--steps 30] [--jobs 2] [--out runs/learning] [--scale cpu|gpu]

Arms, so that the content of the reward and its placement are told apart:
    outcome      `grpo` on the outcome alone
    flattened    `grpo` on outcome + the sum of the turn rewards: more content, no placement
    return_to_go the same turn rewards, placed on their turns
    mt_grpo      the same, placed by zero-padded turn index

`flattened` against `outcome` is what the content is worth; `return_to_go` and `mt_grpo` against `flattened` is what
placement is worth. Writes results.json, table.md and learning.svg. Arms that finished are not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
from rich.console import Console
from rich.table import Table

RECIPE = Path(__file__).parents[1] / "recipes" / "quickstart.toml"
ARMS: dict[str, list[str]] = {
    "outcome": ["train.estimator=grpo", "train.estimator_options.turn_weight=0.0"],
    "flattened": ["train.estimator=grpo"],
    "return_to_go": ["train.estimator=return_to_go"],
    "mt_grpo": ["train.estimator=mt_grpo"],
}
GPU = [
    "policy.tiny.hidden=1024", "policy.tiny.layers=16", "policy.tiny.heads=16", "policy.tiny.kv_heads=8",
    "policy.tiny.head_dim=64", "policy.tiny.vocabulary=4096", "machine.device=cuda", "train.learning_rate=5e-5",
    "warm_start.learning_rate=3e-4", "machine.lockstep=false",
]  # fmt: skip


def warm_start(seed: int, out: str, common: list[str]) -> str:
    """The model every arm of a seed begins with."""
    folder = Path(out) / f"seed-{seed}" / "warm_start"
    if not (folder / "checkpoints" / "warm_start").is_dir():
        _train(folder, [*common, f"seed={seed}", "train.steps=0"], resume=folder.exists())
    return str(folder / "checkpoints" / "warm_start")


def arm(name: str, seed: int, out: str, start: str, steps: int, common: list[str]) -> dict[str, Any]:
    """Train one arm from the shared start and read what came of it."""
    folder = Path(out) / f"seed-{seed}" / name
    measured = sorted(folder.parent.glob("*/evaluation/before.json"))
    if measured and not folder.exists():  # all arms of a seed begin with the same weights: measured once
        (folder / "evaluation").mkdir(parents=True)
        shutil.copy(measured[0], folder / "evaluation")
    if not (folder / "evaluation" / "after.json").is_file():
        sets = [*common, *ARMS[name], f"seed={seed}", f"train.steps={steps}", "train.validate_every=5"]
        _train(folder, [*sets, f"policy.path={start!r}"], resume=folder.exists(), fresh_policy=False)
    from agentgym.episode.run_folder import RunFolder
    from agentgym.evaluation.comparison import compare
    from agentgym.evaluation.record import Evaluation

    curve = RunFolder(folder).metrics("validation")
    before, after = (Evaluation.load(folder / "evaluation" / f"{when}.json") for when in ("before", "after"))
    gain = compare(before, after, tag="unseen_entities").difference
    return {
        "arm": name,
        "seed": seed,
        "steps": [row["step"] for row in curve],
        "success": [row["success"] for row in curve],
        "calls_ok": [row.get("calls_ok", 0.0) for row in curve],
        "before": before.success("unseen_entities").value,
        "held_out": after.success("unseen_entities").value,
        "gain": [gain.value, gain.low, gain.high],
        "held_out_templates": after.success("unseen_templates").value,
    }


def _train(folder: Path, sets: list[str], *, resume: bool, fresh_policy: bool = True) -> None:
    import io
    import tomllib

    from agentgym.training.recipe import Recipe, _override
    from agentgym.training.run import train

    data = tomllib.loads(RECIPE.read_text())
    if not fresh_policy:
        del data["policy"]["tiny"], data["warm_start"]
    for text in sets:
        if fresh_policy or not text.startswith(("policy.tiny", "warm_start")):
            _override(data, text)
    with io.StringIO() as silent:
        train(Recipe.parse(data, str(RECIPE)), folder=folder, resume=resume, console=Console(file=silent))


def steps_to(target: float, run: dict[str, Any]) -> int | None:
    """The first validated step at which success reached the target."""
    return next((s for s, x in zip(run["steps"], run["success"], strict=True) if x >= target), None)


def interval(values: list[float], draws: int = 10_000) -> tuple[float, float, float]:
    """Mean and 95 % percentile-bootstrap interval over seeds."""
    rng, found = np.random.default_rng(0), np.array(values)
    means = rng.choice(found, (draws, len(found))).mean(axis=1)
    return float(found.mean()), *(float(x) for x in np.quantile(means, [0.025, 0.975]))


def table(runs: list[dict[str, Any]]) -> list[list[str]]:
    """One row an arm: tool execution rate, exact match (validation and held-out strata), steps to 80 %."""
    rows = []
    for name in ARMS:
        mine = [run for run in runs if run["arm"] == name]
        if not mine:
            continue

        def told(values: list[float]) -> str:
            mean, low, high = interval(values)
            return f"{mean:.2f} [{low:.2f}, {high:.2f}]"

        reached = [steps_to(0.8, run) for run in mine]
        rows.append(
            [
                name,
                told([run["calls_ok"][-1] for run in mine]),
                told([run["success"][-1] for run in mine]),
                told([run["held_out"] for run in mine]),
                told([run["held_out_templates"] for run in mine]),
                ", ".join("-" if r is None else str(r) for r in reached),
                told([float(np.mean(run["success"])) for run in mine]),
            ]
        )
    return rows


COLUMNS = [
    "arm", "tool execution", "exact match (validation)", "held out: unseen entities", "held out: unseen templates",
    "steps to 80 % by seed", "mean of the curve",
]  # fmt: skip


def plot(runs: list[dict[str, Any]], path: Path) -> None:
    """Validation success over steps: mean and range over the seeds, one line an arm."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    for name, colour in zip(ARMS, ("#7f7f7f", "#e69f00", "#0072b2", "#009e73"), strict=True):
        mine = [run for run in runs if run["arm"] == name]
        if not mine:
            continue
        length = min(len(run["steps"]) for run in mine)
        curves = np.array([run["success"][:length] for run in mine])
        steps = mine[0]["steps"][:length]
        bounds = np.array([interval(list(column)) for column in curves.T])
        axes.plot(steps, bounds[:, 0], label=name, color=colour, linewidth=2)
        axes.fill_between(steps, bounds[:, 1], bounds[:, 2], color=colour, alpha=0.15, linewidth=0)
    axes.set(xlabel="training step", ylabel="success on validation tasks", ylim=(0, 1))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, loc="lower right")
    axes.set_title("Mean over seeds, 95 % bootstrap interval over seeds", fontsize=10)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", default="runs/learning")
    parser.add_argument("--scale", choices=("cpu", "gpu"), default="cpu")
    chosen = parser.parse_args()
    common = GPU if chosen.scale == "gpu" else ["machine.threads=1"]
    common = [*common, "train.save_every=10", "train.keep_checkpoints=1", "evaluate.control={}"]
    console, runs = Console(), []
    with ProcessPoolExecutor(chosen.jobs) as pool:
        starts = {pool.submit(warm_start, seed, chosen.out, common): seed for seed in range(chosen.seeds)}
        arms: dict[Future[dict[str, Any]], tuple[str, int]] = {}
        for ready in as_completed(starts):  # the arms of a seed begin while other seeds still warm up
            seed = starts[ready]
            for name in ARMS:
                job = pool.submit(arm, name, seed, chosen.out, ready.result(), chosen.steps, common)
                arms[job] = (name, seed)
        for done in as_completed(arms):
            runs.append(done.result())
            console.print(f"{len(runs)}/{len(arms)}", *arms[done], f"held out {runs[-1]['held_out']:.3f}")
    runs.sort(key=lambda run: (list(ARMS).index(run["arm"]), run["seed"]))
    out = Path(chosen.out)
    (out / "results.json").write_text(json.dumps(runs, indent=1))
    shown = Table(*COLUMNS, title=f"{chosen.steps} steps, {chosen.seeds} seeds")
    rows = table(runs)
    for row in rows:
        shown.add_row(*row)
    console.print(shown)
    lines = [
        "| " + " | ".join(COLUMNS) + " |",
        "|" + "---|" * len(COLUMNS),
        *("| " + " | ".join(r) + " |" for r in rows),
    ]
    (out / "table.md").write_text("\n".join(lines) + "\n")
    plot(runs, out / "learning.svg")
    console.print(f"Wrote {out / 'results.json'}, {out / 'table.md'} and {out / 'learning.svg'}.")


if __name__ == "__main__":
    main()
