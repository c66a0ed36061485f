"""Where turn-level credit helps: estimators by horizon and kind of feedback, at equal episodes, with several seeds.

    python benchmarks/horizon.py --quick                       # 10 minutes on two cores
    python benchmarks/horizon.py --environments doors sql --horizons 2 8 --feedback outcome dense --seeds 5
    python benchmarks/horizon.py --report                      # the tables and the page from what was run so far
    python benchmarks/horizon.py --quick --compare benchmarks/horizon_results   # does this machine agree with them?

Every run begins with a warm-started model that is right about half of the time at each turn. It trains until success
on validation tasks reaches 80 %, or for --steps steps. Before the first run of a task set at a horizon, the steps to
80 % are predicted from the noise of each estimator's gradient. predictions.json keeps them, and is never changed.

Writes results.jsonl, a line for each run, and report.html. Runs that are done are not run again. With --compare the
exit status is 1 if a cell's mean lies outside the interval of the stored runs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")

from horizon_cells import (
    ARMS,
    ENVIRONMENTS,
    PRETRAINED,
    TARGET,
    UNSEEN_HORIZONS,
    Cell,
    episodes_per_step,
    grid,
    recipe_of,
    start_recipe,
)
from horizon_compare import compared_text
from horizon_predictions import predict
from horizon_report import write_report
from rich.console import Console
from training_runs import cpu_s, play, share_first_measurement, train_quietly, warm_started

from agentgym.errors import AgentGymError

FEEDBACK = ("outcome", "sparse", "dense", "delayed", "misleading", "last", "even", "wrong", "noisy", "very_noisy")
QUICK: dict[str, Any] = {
    "environments": ["doors"],
    "horizons": [2, 8],
    "feedback": ["outcome", "dense"],
    "arms": ["outcome", "flattened", "return_to_go", "turn_gae"],
    "seeds": 2,
    "steps": 40,
}
NIGHT: dict[str, Any] = {
    "environments": [name for name in ENVIRONMENTS if name not in PRETRAINED],
    "horizons": [2, 4, 8, 16, 32],
    "feedback": ["outcome", "sparse", "dense", "delayed", "misleading"],
    "arms": None,
    "seeds": 5,
    "steps": 100,
}
UNSEEN_TASKS = 20  # of each horizon
CONTINUED = "continuations/episodes"  # the metric of the episodes that an estimator plays beside its groups


def run_cell(cell: Cell, out: Path, start: Path, steps: int) -> dict[str, Any]:
    """Train a cell and read its results."""
    from agentgym.evaluation.record import Evaluation

    folder = out / cell.folder
    share_first_measurement(folder)
    began, cpu_began = time.monotonic(), cpu_s()
    run = train_quietly(recipe_of(cell, start, steps), folder)
    cost = {"cpu_s": round(cpu_s() - cpu_began, 1), "wall_s": round(time.monotonic() - began, 1)}
    validations, trained = run.metrics("validation"), run.metrics("train")
    reached = next((row["step"] for row in validations if row["success"] >= TARGET), None)
    after = Evaluation.load(folder / "evaluation" / "after.json")
    per_step = episodes_per_step(cell.environment)
    row = cell.to_json() | {
        "estimator": ARMS[cell.arm],
        "steps": [row["step"] for row in validations],
        "success": [row["success"] for row in validations],
        "progress": [row.get("outcome/progress") for row in validations],
        "episodes_to_target": None if reached is None else reached * per_step,
        "episodes": trained[-1]["step"] * per_step,
        "episodes_beside": sum(row.get(CONTINUED, 0.0) for row in trained),
        **cost,
        "before": Evaluation.load(folder / "evaluation" / "before.json").success().value,
        "held_out": after.success().value,
        "held_out_tasks": len(after.rows),
        "unseen_horizons": {} if cell.environment in PRETRAINED else unseen_horizons(cell, run.checkpoints / "final"),
    }
    for heavy in ("checkpoints", "tensorboard"):  # hundreds of runs; the record of what was measured stays
        shutil.rmtree(folder / heavy, ignore_errors=True)
    return row


def unseen_horizons(cell: Cell, checkpoint: Path) -> dict[str, float]:
    """Return a trained model's success on held-out tasks at horizons without training, each measured once."""
    success = {}
    for horizon in UNSEEN_HORIZONS:
        recipe = recipe_of(replace(cell, horizon=horizon), checkpoint, steps=1)
        (tag,) = recipe.tasks.tags
        task_set = recipe.tasks.model_copy(update={"tags": ()}).load()  # no training task has the tag
        tasks = [task for task in task_set["held_out"] if tag in task.tags][:UNSEEN_TASKS]
        trajectories = play(recipe, checkpoint, task_set, tasks)
        success[str(horizon)] = sum(trajectory.outcome["success"] for trajectory in trajectories) / len(trajectories)
    return success


def make_start(environment: str, seed: int, out: Path) -> Path:
    """Return the warm-started model of an environment and a seed."""
    return warm_started(start_recipe(environment, seed), out / "starts" / f"{environment}-seed-{seed}")


def results_of(out: Path) -> list[dict[str, Any]]:
    """Return the rows of finished runs; an incomplete line is left out."""
    file, rows = out / "results.jsonl", []
    for line in file.read_text(encoding="utf-8").splitlines() if file.is_file() else ():
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def cell_of(row: dict[str, Any]) -> Cell:
    """Return the cell to which a row of results.jsonl belongs."""
    return Cell(*(row[name] for name in Cell.__dataclass_fields__))


def run_grid(cells: Sequence[Cell], out: Path, *, steps: int, jobs: int, console: Console) -> list[str]:
    """Run the unfinished cells. Returns: a line for each cell that failed."""
    known = {cell_of(row) for row in results_of(out)}
    open_cells = [cell for cell in cells if cell not in known]
    console.print(f"{len(cells) - len(open_cells)} of {len(cells)} runs are done", markup=False)
    failures: list[str] = []
    with ProcessPoolExecutor(jobs) as pool:
        keys = dict.fromkeys((cell.environment, cell.seed) for cell in open_cells)
        starts = {key: pool.submit(make_start, *key, out) for key in keys}
        for key in starts:
            console.print(
                f"warm start of {key[0]}, seed {key[1]}: {starts[key].result()}", markup=False, soft_wrap=True
            )
        predict(open_cells, {key: start.result() for key, start in starts.items()}, out, console)
        began = time.monotonic()
        futures = {
            pool.submit(run_cell, cell, out, starts[cell.environment, cell.seed].result(), steps): cell
            for cell in open_cells
        }
        for number, done in enumerate(as_completed(futures), start=1):
            cell = futures[done]
            try:
                row = done.result()
            except AgentGymError as error:  # an estimator that this environment cannot feed; the others go on
                failures.append(f"{cell.folder}: {error}")
                continue
            with (out / "results.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
            left_s = (time.monotonic() - began) / number * (len(futures) - number)
            reached = row["episodes_to_target"] or f"over {row['episodes']}"
            console.print(
                f"{number}/{len(futures)}  {cell.folder}: {reached} episodes to 80 %, held out {row['held_out']:.2f}, "
                f"{row['cpu_s']:.0f} CPU-s; {left_s / 60:.0f} minutes left",
                markup=False,
                soft_wrap=True,
            )
    return failures


def compare(cells: Sequence[Cell], out: Path, stored: Path, console: Console) -> bool:
    """Print whether the runs of these cells agree with the stored ones, and return it. Raises: EvaluationError."""
    chosen = set(cells)
    text, agree = compared_text([row for row in results_of(out) if cell_of(row) in chosen], results_of(stored))
    console.print(text, markup=False, soft_wrap=True)
    return agree


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a slice of 10 minutes; other options replace its values")
    parser.add_argument("--environments", nargs="+", choices=tuple(ENVIRONMENTS))
    parser.add_argument("--horizons", nargs="+", type=int, choices=(2, 4, 8, 16, 32))
    parser.add_argument("--feedback", nargs="+", choices=FEEDBACK)
    parser.add_argument("--arms", nargs="+", choices=tuple(ARMS), help="default: all")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--steps", type=int, help="of a run at most; 64 episodes each")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/horizon"))
    parser.add_argument("--report", action="store_true", help="only write the report of what was run so far")
    parser.add_argument("--compare", type=Path, metavar="FOLDER", help="compare these cells with the runs stored there")
    chosen = parser.parse_args()
    console, failures = Console(), []
    defaults = QUICK if chosen.quick else NIGHT
    values = {name: getattr(chosen, name) or default for name, default in defaults.items()}
    cells = grid(values["environments"], values["horizons"], values["feedback"], values["arms"], range(values["seeds"]))
    try:
        if not chosen.report:
            chosen.out.mkdir(parents=True, exist_ok=True)
            failures = run_grid(cells, chosen.out, steps=values["steps"], jobs=chosen.jobs, console=console)
        console.print(write_report(results_of(chosen.out), chosen.out), markup=False, soft_wrap=True)
        agree = chosen.compare is None or compare(cells, chosen.out, chosen.compare, console)
    except AgentGymError as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        return 2
    for line in failures:
        console.print(f"failed: {line}", style="red", markup=False, soft_wrap=True)
    return 1 if failures or not agree else 0


if __name__ == "__main__":
    sys.exit(main())
