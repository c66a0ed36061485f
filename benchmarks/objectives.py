"""Objectives, loss terms, references and stages from the same warm start at equal episodes.

    python benchmarks/objectives.py [--seeds 3] [--steps 40] [--out runs/objectives] [--set KEY=VALUE]
    python benchmarks/objectives.py --recipe quickstart           # on the quickstart's database; else a game in memory
    python benchmarks/objectives.py --arms grpo nft dpo           # only these; the first one is compared with
    python benchmarks/objectives.py --one-start                   # all seeds begin with the warm start of seed 0
    python benchmarks/objectives.py --quick                       # a few steps of each, to see that they run

The recipe is recipes/text.toml or recipes/quickstart.toml with only the outcome as reward. An objective that takes
advantages gets those of `grpo`; `ppo` has its own critic. A term is added to `dr_grpo`. The teacher is the warm-started
model after more imitation, only of the oracle. The stages (objective_stages.py) play at most as many episodes in three
rounds, or in one collection where they learn from stored ones; a search has their messages, and each of its nodes and
rollouts is counted as an episode. Every arm of a seed begins with the same weights; with --one-start all seeds do, and
the intervals are of reinforcement alone. Additional play and computation of a teacher, an expert or the reference shows
in the seconds of a step: processor seconds of this process, so that other work on the machine hardly changes them.
Those of a stage are its whole training divided by the steps of the others.

Each cell, an arm under a seed, keeps its row in cell.json beside its run; results.json and table.md are made of all
rows in --out. Cells that finished are not run again; an interrupted one continues, and a failed one is tried again.
Calls with other --arms may run at the same time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
from learning import paired_interval
from objective_stages import STAGE_ARMS, arm_stages
from rich.console import Console
from training_runs import cpu_s, from_start, mean_interval, share_first_measurement, train_quietly, warm_started

from agentgym.errors import AgentGymError
from agentgym.storage.reader import LedgerReader
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe

RECIPES = Path(__file__).parents[1] / "recipes"
RANKINGS = {"text": "potential_shaping", "quickstart": "return_to_go"}
"""The estimator that ranks turns, by recipe."""
TEACHER = "{teacher}"
COMMON = [
    "train.estimator=grpo(turn_weight=0.0)",
    "train.save_every=10",
    "train.keep_checkpoints=1",
    "train.validate_every=10",
    "evaluate.control={}",
]
QUICK = [
    "warm_start.demonstrations=32",
    "warm_start.steps=20",
    "warm_start.validate_tasks=4",
    "train.tasks_per_step=4",
    "train.group_size=4",
    "train.validate_tasks=4",
    "evaluate.tasks=8",
    "evaluate.group_size=1",
]
QUICK_STEPS = 2
TAKE_ADVANTAGES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "vespo", "gspo", "luspo", "reinforce", "topr")
READ_OUTCOMES = ("nft", "pacs", "pairwise_ppo")
FIXED = {"reference": {"kind": "fixed"}}


def _term(name: str, weight: float, **options: Any) -> dict[str, Any]:
    return {"terms": {name: {"weight": weight, "options": options}}}


ARMS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"objective": name} for name in (*TAKE_ADVANTAGES, "stable_reinforce")},
    **{name: {"objective": name, "estimator": "return_to_go"} for name in READ_OUTCOMES},
    "ppo": {"objective": "ppo", "estimator": "turn_gae(lam=0.95)"},
    "decoupled_ppo": {"objective": "decoupled_ppo"},
    "critique_grpo": {"objective": "critique_grpo"},  # nothing is refined here: PPO without a clip
    "apo": {"objective": "apo", "estimator": "return_to_go", **FIXED},
    "grao": {"objective": "grao", "estimator": "return_to_go", "experts": {}},
    "entropy_bonus": _term("entropy_bonus", 0.01),
    "entropy_band": _term("entropy_band", 0.1, low=0.8, high=1.2, relative=True),
    "kl": {"kl": 0.02},
    "reference_kl": {**_term("reference_kl", 0.02), **FIXED},
    "teacher_kl": {**_term("teacher_kl", 0.5), "parts": {"teacher": {"path": TEACHER}}},
    "teacher_kl_response": {**_term("teacher_kl", 0.5, mask="response"), "parts": {"teacher": {"path": TEACHER}}},
    "teacher_kl_group": {**_term("teacher_kl", 0.5, mask="group"), "parts": {"teacher": {"path": TEACHER}}},
    "expert_sft": {"terms": {"expert_sft": {"weight": 0.3, "schedule": {"start": 1.0, "end": 0.1}}}, "experts": {}},
    "snr": {"parts": {"snr_learning_rate": True}},
    "reset": {"kl": 0.02, "reference": {"kind": "reset", "reset_every": 10}},
    "moving_average": {"kl": 0.02, "reference": {"kind": "moving_average", "reset_every": 1, "mix": 0.1}},
    "best": {"kl": 0.02, "reference": {"kind": "best"}},
}
"""The changes of each arm in [train], by name. `thought_sft` is missing: this agent writes calls and no thoughts."""

COLUMNS = ["arm", "held out", "against the first, paired", "episodes", "CPU seconds a step", "x of the first"]
Row = dict[str, Any]


def recipe_of(arm: str, seed: int, start: Path, teacher: Path, steps: int, base: str, sets: Sequence[str]) -> Recipe:
    """Return the recipe of an arm, with the shared start as its model. Raises: RecipeError."""
    source = RECIPES / f"{base}.toml"
    data = Recipe.load(source, [*sets, f"seed={seed}", f"train.steps={steps}"]).model_dump(exclude_none=True)
    if arm in STAGE_ARMS:
        episodes = steps * data["train"]["tasks_per_step"] * data["train"]["group_size"]
        data["stage"] = arm_stages(arm, episodes, RANKINGS[base])
    else:
        data["train"] |= json.loads(json.dumps(dict(ARMS[arm])).replace(TEACHER, str(teacher)))
    return from_start(data, start, f"{source}, {arm}")


def teacher_of(seed: int, folder: Path, start: Path, base: str, sets: Sequence[str]) -> Path:
    """Return the start after the same amount of further imitation, of the oracle alone; made once."""
    source = RECIPES / f"{base}.toml"
    recipe = Recipe.load(source, [*sets, f"seed={seed}", "train.steps=0", "warm_start.imperfect_oracle=0.0"])
    data = recipe.model_dump(exclude_none=True)
    data["policy"] = {"path": str(start), "call_format": data["policy"]["call_format"]}
    return warm_started(Recipe.parse(data, str(source)), folder)


def run_cell(
    arm: str, seed: int, out: Path, steps: int, base: str, sets: Sequence[str], *, start_seed: int | None = None
) -> Row:
    """Train one arm from the shared start, unless that is done, and store the row of its results.

    Args:
        start_seed: the seed of the warm start and the teacher, by default `seed`.
    """
    folder = out / f"seed-{seed}"
    first = seed if start_seed is None else start_seed
    starts = out / f"seed-{first}"
    cell, key = folder / arm / "cell.json", {"arm": arm, "seed": seed}
    try:
        warm_start = Recipe.load(RECIPES / f"{base}.toml", [*sets, f"seed={first}", "train.steps=0"])
        start = warm_started(warm_start, starts / "warm_start")
        needs_teacher = TEACHER in json.dumps(dict(ARMS.get(arm, {})))
        teacher = teacher_of(first, starts / "teacher", start, base, sets) if needs_teacher else start
        share_first_measurement(folder / arm)
        recipe = recipe_of(arm, seed, start, teacher, steps, base, sets)
        seconds = _timed_training(recipe, folder / arm)
        row = json.loads(cell.read_text(encoding="utf-8")) if seconds is None and cell.is_file() else {}
        if not row or "error" in row:
            row = key | _row_of(recipe, folder / arm, None if seconds is None else seconds / steps)
    except AgentGymError as error:
        row = key | {"error": str(error)}
    cell.parent.mkdir(parents=True, exist_ok=True)
    cell.write_text(json.dumps(row, indent=1), encoding="utf-8")
    return row


def _timed_training(recipe: Recipe, folder: Path) -> float | None:
    """Train. Returns: its CPU seconds without those of measurements; None if it was done, or began in another call."""
    from agentgym.evaluation.record import Evaluation

    began, measured = RunFolder(folder).recipe.is_file(), set(folder.glob("evaluation/*.json"))
    started = cpu_s()
    train_quietly(recipe, folder)
    new = set(folder.glob("evaluation/*.json")) - measured
    seconds = cpu_s() - started - sum(Evaluation.load(file).cpu_s for file in new)
    return None if began else seconds


def _row_of(recipe: Recipe, folder: Path, training_s: float | None) -> Row:
    """Return the row of a finished run. `training_s`: its CPU seconds per step of the arms with steps, if known."""
    from agentgym.evaluation.record import Evaluation

    run, stratum = RunFolder(folder), recipe.evaluate.stratum
    before, after = (Evaluation.load(folder / "evaluation" / f"{when}.json") for when in ("before", "after"))
    times = [] if recipe.stage else [row["pace/cpu_s"] for row in run.metrics("train") if "pace/cpu_s" in row]
    reader = LedgerReader(run.ledger)
    episodes = sum(not episode.startswith("held-out-") for episode in reader.finished())
    reader.close()
    return {
        "before": before.success(stratum).value,
        "held_out": after.success(stratum).value,
        "tasks": {row.task: float(np.mean(row.observed)) for row in after.select(stratum) if row.observed},
        "success": [] if recipe.stage else [row["success"] for row in run.metrics("validation")],
        "episodes": episodes,
        "step_s": float(np.median(times)) if times else training_s,
    }


def table(rows: Sequence[Row], arms: Sequence[str]) -> list[list[str]]:
    """Return one line per arm: mean and interval over the seeds; the paired interval is over seeds and tasks."""
    by_arm = {arm: [row for row in rows if row["arm"] == arm and "error" not in row] for arm in arms}
    first = by_arm[arms[0]]
    lines = []
    for arm in arms:
        if not (mine := by_arm[arm]):
            continue
        of_first = {row["seed"]: row["step_s"] for row in first}
        timed = [row for row in mine if row["step_s"]]
        ratios = [row["step_s"] / of_first[row["seed"]] for row in timed if of_first.get(row["seed"])]
        lines.append(
            [
                arm,
                _as_text(mean_interval([row["held_out"] for row in mine])),
                "" if arm == arms[0] else _as_text(paired_interval(mine, first), signed=True),
                f"{np.mean([row['episodes'] for row in mine]):.0f}",
                f"{np.mean([row['step_s'] for row in timed]):.2f}" if timed else "-",
                f"{np.mean(ratios):.2f}" if ratios else "-",
            ]
        )
    return lines


def _as_text(estimate: tuple[float, float, float], *, signed: bool = False) -> str:
    mean, low, high = (f"{value:+.2f}" if signed else f"{value:.2f}" for value in estimate)
    return f"{mean} [{low}, {high}]"


def main() -> int:
    every_arm = [*ARMS, *STAGE_ARMS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipe", choices=sorted(RANKINGS), default="text")
    parser.add_argument("--arms", nargs="+", choices=sorted(every_arm), default=every_arm, metavar="ARM")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--out", type=Path, default=None, help="default: runs/objectives, runs/objectives-quickstart")
    parser.add_argument("--one-start", action="store_true", help="all seeds begin with the warm start of seed 0")
    parser.add_argument("--quick", action="store_true", help="one seed, two steps, few tasks")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any key of the recipe")
    chosen = parser.parse_args()
    console, failed = Console(), False
    sets = [*COMMON, *(QUICK if chosen.quick else []), *chosen.set]
    steps = chosen.steps or (QUICK_STEPS if chosen.quick else 40)
    out = chosen.out or Path("runs") / ("objectives" if chosen.recipe == "text" else f"objectives-{chosen.recipe}")
    out.mkdir(parents=True, exist_ok=True)
    for seed in range(1 if chosen.quick else chosen.seeds):
        for arm in chosen.arms:
            start_seed = 0 if chosen.one_start else None
            row = run_cell(arm, seed, out, steps, chosen.recipe, sets, start_seed=start_seed)
            failed |= "error" in row
            result = row.get("error") or f"held out {row['held_out']:.3f}"
            console.print(f"{arm}, seed {seed}: {result}", markup=False, soft_wrap=True)
            report(out, chosen.arms)
    console.print((out / "table.md").read_text(encoding="utf-8"), markup=False, soft_wrap=True)
    return int(failed)


def report(out: Path, arms: Sequence[str]) -> None:
    """Write the results so far: first of these arms, then of others that earlier calls ran."""
    rows = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(out.glob("seed-*/*/cell.json"))]
    (out / "results.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    known = {row["arm"] for row in rows}
    order = [*arms, *(arm for arm in (*ARMS, *STAGE_ARMS) if arm in known and arm not in arms)]
    lines = [COLUMNS, ["---"] * len(COLUMNS), *table(rows, order)]
    (out / "table.md").write_text("".join("| " + " | ".join(line) + " |\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
