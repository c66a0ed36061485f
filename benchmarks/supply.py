"""What a step plays: a hard task set with and without dynamic sampling, replay, easier tasks and their combinations.

    python benchmarks/supply.py [--seeds 3] [--steps 80] [--arms plain dynamic] [--out runs/supply]
    python benchmarks/supply.py --set locks   # help in training: hints, a guide, scaffolds, refinements
    python benchmarks/supply.py --quick       # two steps of each, to see that they run

The tasks are rows of 16 doors in which every key counts, rewarded at the end alone (`recipes/horizon_doors.toml`). The
warm-started model would succeed in about 1 of 1,000 episodes, so nearly every group fails whole and a plain run learns
from luck. With `--set locks` they are locks of the house (`recipes/locks.toml`), of which the warm-started model opens
none: it has learned to read what a prompt notes, and nothing of the house. Every arm of a seed begins with the same
weights. A run ends once success on validation tasks of this kind reaches 80 %. Costs count every episode that was
played, also those that were left out.

Writes results.json and table.md. Runs that are done are not made again; one that was cut short goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
from horizon_cells import RECIPES, TARGET, VALIDATE_EVERY, Cell, recipe_of, start_recipe
from horizon_ratios import ratio
from rich.console import Console
from training_runs import cpu_s, from_start, share_first_measurement, train_quietly, warm_started

from agentgym.errors import AgentGymError
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe

HORIZON = 16
EASIER = [f"every_door_{horizon}" for horizon in (2, 4, 8)]
HARD = f"every_door_{HORIZON}"
ARMS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "dynamic": {"gather": ["dynamic(max_rounds=4)"]},
    "oversample": {"gather": ["max_variance(factor=4)"]},
    "replay": {"gather": ["success_replay"]},
    "dynamic_replay": {"gather": ["dynamic(max_rounds=4)", "success_replay"]},
    "starts": {"gather": ["starts(share=0.5)"]},
    "easier": {"easier": True},
    "easier_adaptive": {"easier": True, "sampler": "adaptive(window=2, accuracy=0.7)"},
    "easier_ucb": {"easier": True, "sampler": "ucb"},
    "prefix_buffer": {"gather": ["prefix_buffer"]},
    "entropy_forks": {"gather": ["entropy_forks"]},
    "easier_generate": {"easier": True},
    "easier_variants": {"easier": True, "gather": ["variants"]},
}
"""`starts` begins half of the groups within an episode of the oracle, one turn before its end at first. `easier` trains
on rows of 2, 4 and 8 doors too, drawn alike unless a sampler says otherwise, and in `easier_generate`, after a fifth of
the steps, also on new rows like those that were still weak."""
DEMONSTRATIONS = {"policy": "oracle", "tasks": 400, "group_size": 1}
NEW_TASKS = {"episodes": ["first"], "tasks": 400}
LOCKS = "unseen_house_4"
LOCK_ARMS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "guided": {"gather": ["guided"]},
    "guide": {"gather": ["guide(turns=3)"]},
    "scaffolded": {"gather": ["scaffolded"]},
    "refined": {"gather": ["refined(best=2)"]},
    "refined_shaped": {"gather": ["refined(best=2)"], "objective": "critique_grpo"},
}
"""Of help in training. Critiques of `refined` are the words themselves (`worked_solution`)."""
ARMS_OF: Mapping[str, Mapping[str, Mapping[str, Any]]] = {"doors": ARMS, "locks": LOCK_ARMS}


def arm_recipe(task_set: str, arm: str, seed: int, start: Path, steps: int) -> Recipe:
    """Return the recipe of an arm: only the outcome is rewarded, on a set's hard tasks, with the arm's changes."""
    if task_set == "locks":
        return lock_recipe(arm, seed, start, steps)
    changes = dict(ARMS[arm])
    recipe = recipe_of(Cell("doors", HORIZON, "outcome", "outcome", seed), start, steps)
    data = recipe.model_dump(exclude_none=True)
    data["name"] = f"supply-{arm}"
    if changes.pop("easier", False):
        data["tasks"]["tags"] = [*EASIER, HARD]
        data["evaluate"] |= {"stratum": HARD}
        data["train"] |= {"validate_stratum": HARD}
    first = max(1, steps // 5)
    between: list[tuple[str, str, dict[str, Any]]] = []
    if arm == "starts":
        between = [("collect", "collect", DEMONSTRATIONS), ("reinforce", "train", {})]
    elif arm == "easier_generate":
        between = [
            ("reinforce", "first", {"steps": first}),
            ("generate", "generate", NEW_TASKS),
            ("reinforce", "train", {"steps": steps - first, "tasks_of": "generate"}),
        ]
    if between:
        stages = [("evaluate", "before", {}), *between, ("evaluate", "after", {})]
        data["stage"] = [{"kind": kind, "name": name, "options": options} for kind, name, options in stages]
    data["train"] |= changes
    return Recipe.parse(data)


def lock_recipe(arm: str, seed: int, start: Path, steps: int) -> Recipe:
    """Return the recipe of an arm on locks of the house."""
    data = Recipe.load(RECIPES / "locks.toml", [f"seed={seed}"]).model_dump(exclude_none=True)
    data["name"] = f"supply-locks-{arm}"
    data["train"] |= {"steps": steps, "validate_every": VALIDATE_EVERY, "until_success": TARGET, "gather": []}
    data["train"] |= LOCK_ARMS[arm]
    data["guard"] = {"on_alarm": "off"}
    if arm.startswith("refined"):
        data["reward"] = {"also": ["worked_solution"]}
    return from_start(data, start, f"locks, {arm}")


def start_of(task_set: str, seed: int) -> Recipe:
    """Return the recipe of the warm start that all arms of a seed share."""
    if task_set == "doors":
        return start_recipe("doors", seed)
    return Recipe.load(RECIPES / "locks.toml", [f"seed={seed}", "train.steps=0", "evaluate.tasks=8"])


def run_arm(task_set: str, arm: str, seed: int, out: Path, steps: int) -> dict[str, Any]:
    """Train an arm and read its results."""
    from agentgym.evaluation.record import Evaluation

    start = warm_started(start_of(task_set, seed), out / "starts" / f"seed-{seed}")
    folder = out / f"seed-{seed}" / arm
    arms = ARMS_OF[task_set]
    share_first_measurement(folder, [name for name in arms if arms[name].get("easier") == arms[arm].get("easier")])
    began, cpu_began = time.monotonic(), cpu_s()
    recipe = arm_recipe(task_set, arm, seed, start, steps)
    trained, validations = logged(train_quietly(recipe, folder), recipe)
    reached = next((row["step"] for row in validations if row["success"] >= TARGET), None)
    used = [row for row in trained if reached is None or row["step"] <= reached]
    return {
        "arm": arm,
        "seed": seed,
        "reached": reached is not None,
        "steps": used[-1]["step"],
        "episodes": sum(row["gather/episodes"] for row in used),
        "useful": float(np.mean([row["gather/useful"] for row in used])),
        "first_useful_step": next((row["step"] for row in used if row["gather/useful"] > 0), None),
        "success": [row["success"] for row in validations],
        "held_out": Evaluation.load(folder / "evaluation" / "after.json")
        .success(HARD if task_set == "doors" else LOCKS)
        .value,
        "cpu_s": round(cpu_s() - cpu_began, 1),
        "wall_s": round(time.monotonic() - began, 1),
    }


def logged(run: RunFolder, recipe: Recipe) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What the training and the validations of an arm logged; where it trains twice, the steps of the second go on."""
    if not recipe.stage:
        return run.metrics("train"), run.metrics("validation")
    trained: list[dict[str, Any]] = []
    validations: list[dict[str, Any]] = []
    for stage in recipe.stage:
        if stage.kind == "reinforce":
            before = trained[-1]["step"] if trained else 0
            for rows, phase in ((trained, stage.given_name), (validations, f"{stage.given_name}_validation")):
                rows += [{**row, "step": before + row["step"]} for row in run.metrics(phase)]
    return trained, validations


def table(runs: Sequence[Mapping[str, Any]], arms: Sequence[str]) -> list[list[str]]:
    """Return a row for each arm: how often it reached 80 %, and the cost, also relative to the first arm's cost."""
    by_arm = {arm: sorted((r for r in runs if r["arm"] == arm), key=lambda r: r["seed"]) for arm in arms}
    rows = []
    for arm, own in by_arm.items():
        if not own:
            continue
        reached = [run for run in own if run["reached"]]
        costs = [run["episodes"] for run in own]
        cost = f"{np.median(costs):,.0f}" if 2 * len(reached) > len(own) else f">{max(costs):,.0f}"
        base = by_arm[arms[0]]
        against = ratio([_as_row(run) for run in own], [_as_row(run) for run in base]) if arm != arms[0] else None
        rows.append(
            [
                f"`{arm}`",
                f"{len(reached)} of {len(own)}",
                cost,
                "" if against is None else against.text,
                f"{np.mean([run['useful'] for run in own]):.2f}",
                f"{np.mean([run['held_out'] for run in own]):.2f}",
                f"{np.mean([run['cpu_s'] for run in own]):.0f}",
            ]
        )
    return rows


def _as_row(run: Mapping[str, Any]) -> dict[str, Any]:
    """As the ratios of the horizon benchmark read a run."""
    episodes = run["episodes"]
    reached = episodes if run["reached"] else None
    return {**run, "environment": "doors", "episodes_to_target": reached, "episodes_beside": 0.0}


HEADER = (
    "arm",
    "seeds at 80 %",
    "episodes, median",
    "x `{first}`, paired",
    "useful groups",
    "held out",
    "CPU-s",
)


def report(runs: Sequence[Mapping[str, Any]], arms: Sequence[str], out: Path) -> str:
    """Write results.json and table.md. Returns: the table."""
    header = [cell.format(first=arms[0]) for cell in HEADER]
    lines = [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *table(runs, arms))]
    (out / "results.json").write_text(json.dumps(list(runs), indent=1), encoding="utf-8")
    (out / "table.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", choices=tuple(ARMS_OF), default="doors", dest="task_set")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=80, help=f"of a run at most; validated every {VALIDATE_EVERY}")
    parser.add_argument("--arms", nargs="+", help="of the set, by default all; the first is compared with")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, help="by default runs/supply, or runs/supply-locks")
    chosen = parser.parse_args()
    arms = chosen.arms or list(ARMS_OF[chosen.task_set])
    if unknown := [arm for arm in arms if arm not in ARMS_OF[chosen.task_set]]:
        parser.error(f"--arms {unknown[0]}: {chosen.task_set} has {', '.join(ARMS_OF[chosen.task_set])}")
    out = chosen.out or Path("runs/supply" if chosen.task_set == "doors" else f"runs/supply-{chosen.task_set}")
    console, steps = Console(), 2 if chosen.quick else chosen.steps
    seeds = 1 if chosen.quick else chosen.seeds
    out.mkdir(parents=True, exist_ok=True)
    file = out / "results.json"
    runs: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    done = {(run["arm"], run["seed"]) for run in runs}
    for seed in range(seeds):
        for arm in arms:
            if (arm, seed) in done:
                continue
            try:
                runs.append(run_arm(chosen.task_set, arm, seed, out, steps))
            except AgentGymError as error:
                console.print(f"{arm}, seed {seed}: {error}", style="red", markup=False, soft_wrap=True)
                return 2
            report(runs, arms, out)
            console.print(f"{arm}, seed {seed}: {runs[-1]}", markup=False, soft_wrap=True)
    console.print(report(runs, arms, out), markup=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
