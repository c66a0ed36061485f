"""Objectives, loss terms and references from the same warm start at equal episodes, on number guessing in memory.

    python benchmarks/objectives.py [--seeds 3] [--steps 40] [--out runs/objectives] [--set KEY=VALUE]
    python benchmarks/objectives.py --arms grpo nft pacs          # only these; the first one is compared with
    python benchmarks/objectives.py --quick                       # a few steps of each, to see that they run

The recipe is recipes/text.toml with the outcome alone as reward. An objective that takes advantages gets those of
`grpo`; `ppo` has its own critic. A term is added to `dr_grpo`. The teacher is the warm-started model after more
imitation, of the oracle alone. Every arm of a seed begins with the same weights and plays as many episodes; what a
teacher, an expert or the reference plays and computes beside shows in the seconds of a step.

Writes results.json and table.md. Arms that finished are not run again; one that was cut short goes on. Calls with other
--arms may run at the same time.
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
from rich.console import Console
from rich.markup import escape
from training_runs import from_start, mean_interval, share_first_measurement, train_quietly, warm_started

from agentgym.errors import AgentGymError
from agentgym.training import Recipe

RECIPE = Path(__file__).parents[1] / "recipes" / "text.toml"
STRATUM = "unseen_instances"
TEACHER = "{teacher}"
COMMON = [
    "train.estimator=grpo(turn_weight=0.0)",
    "train.save_every=10",
    "train.keep_checkpoints=1",
    "train.validate_every=10",
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
TAKE_ADVANTAGES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo", "reinforce", "topr")
READ_OUTCOMES = ("nft", "pacs", "pairwise_ppo")
FIXED = {"reference": {"kind": "fixed"}}


def _term(name: str, weight: float, **options: Any) -> dict[str, Any]:
    return {"terms": {name: {"weight": weight, "options": options}}}


ARMS: Mapping[str, Mapping[str, Any]] = {
    **{name: {"objective": name} for name in (*TAKE_ADVANTAGES, "stable_reinforce")},
    **{name: {"objective": name, "estimator": "return_to_go"} for name in READ_OUTCOMES},
    "ppo": {"objective": "ppo", "estimator": "turn_gae(lam=0.95)"},
    "decoupled_ppo": {"objective": "decoupled_ppo"},
    "apo": {"objective": "apo", "estimator": "return_to_go", **FIXED},
    "grao": {"objective": "grao", "estimator": "return_to_go", "experts": {}},
    "entropy_bonus": _term("entropy_bonus", 0.01),
    "entropy_band": _term("entropy_band", 0.1, low=0.8, high=1.2, relative=True),
    "kl": {"kl": 0.02},
    "reference_kl": {**_term("reference_kl", 0.02), **FIXED},
    "teacher_kl": {**_term("teacher_kl", 0.5), "teacher": {"path": TEACHER}},
    "teacher_kl_response": {**_term("teacher_kl", 0.5, mask="response"), "teacher": {"path": TEACHER}},
    "teacher_kl_group": {**_term("teacher_kl", 0.5, mask="group"), "teacher": {"path": TEACHER}},
    "expert_sft": {"terms": {"expert_sft": {"weight": 0.3, "schedule": {"start": 1.0, "end": 0.1}}}, "experts": {}},
    "snr": {"snr_learning_rate": True},
    "reset": {"kl": 0.02, "reference": {"kind": "reset", "reset_every": 10}},
    "moving_average": {"kl": 0.02, "reference": {"kind": "moving_average", "reset_every": 1, "mix": 0.1}},
    "best": {"kl": 0.02, "reference": {"kind": "best"}},
}
"""By name, what it changes in [train]. `thought_sft` is not here: this agent writes calls and no thoughts."""

COLUMNS = ["arm", "held out", "against the first, paired", "mean of the curve", "seconds a step", "x of the first"]


def recipe_of(arm: str, seed: int, start: Path, teacher: Path, steps: int, sets: Sequence[str]) -> Recipe:
    """The recipe of an arm with the shared start in place of a model of its own. Raises: RecipeError."""
    data = Recipe.load(RECIPE, [*sets, f"seed={seed}", f"train.steps={steps}"]).model_dump(exclude_none=True)
    data["train"] |= json.loads(json.dumps(dict(ARMS[arm])).replace(TEACHER, str(teacher)))
    return from_start(data, start, f"{RECIPE}, {arm}")


def teacher_of(seed: int, folder: Path, start: Path, sets: Sequence[str]) -> Path:
    """The start after as much imitation again, of the oracle alone; made once."""
    recipe = Recipe.load(RECIPE, [*sets, f"seed={seed}", "train.steps=0", "warm_start.imperfect_oracle=0.0"])
    data = recipe.model_dump(exclude_none=True)
    data["policy"] = {"path": str(start), "call_format": data["policy"]["call_format"]}
    return warm_started(Recipe.parse(data, str(RECIPE)), folder)


def run_arm(arm: str, seed: int, out: Path, steps: int, sets: Sequence[str]) -> dict[str, Any]:
    """Train one arm from the shared start and read what came of it."""
    from agentgym.evaluation.record import Evaluation

    folder = out / f"seed-{seed}"
    start = warm_started(Recipe.load(RECIPE, [*sets, f"seed={seed}", "train.steps=0"]), folder / "warm_start")
    teacher = teacher_of(seed, folder / "teacher", start, sets) if TEACHER in json.dumps(dict(ARMS[arm])) else start
    share_first_measurement(folder / arm)
    run = train_quietly(recipe_of(arm, seed, start, teacher, steps, sets), folder / arm)
    before, after = (Evaluation.load(folder / arm / "evaluation" / f"{when}.json") for when in ("before", "after"))
    times = [row["step_time"] for row in run.metrics("train")]
    return {
        "arm": arm,
        "seed": seed,
        "before": before.success(STRATUM).value,
        "held_out": after.success(STRATUM).value,
        "tasks": {row.task: float(np.mean(row.observed)) for row in after.select(STRATUM) if row.observed},
        "success": [row["success"] for row in run.metrics("validation")],
        "step_s": float(np.median(times)),
    }


def table(runs: Sequence[Mapping[str, Any]], arms: Sequence[str]) -> list[list[str]]:
    """One row an arm: mean and interval over the seeds; the paired interval is over seeds and tasks."""
    by_arm = {arm: [dict(run) for run in runs if run["arm"] == arm] for arm in arms}
    first = by_arm[arms[0]]
    rows = []
    for arm in arms:
        if not (mine := by_arm[arm]):
            continue
        seconds = float(np.mean([run["step_s"] for run in mine]))
        of_first = {run["seed"]: run["step_s"] for run in first}
        ratios = [run["step_s"] / of_first[run["seed"]] for run in mine if run["seed"] in of_first]
        rows.append(
            [
                arm,
                _as_text(mean_interval([run["held_out"] for run in mine])),
                "" if arm == arms[0] else _as_text(paired_interval(mine, first), signed=True),
                _as_text(mean_interval([float(np.mean(run["success"])) for run in mine])),
                f"{seconds:.2f}",
                f"{np.mean(ratios):.2f}" if ratios else "-",
            ]
        )
    return rows


def _as_text(estimate: tuple[float, float, float], *, signed: bool = False) -> str:
    mean, low, high = (f"{value:+.2f}" if signed else f"{value:.2f}" for value in estimate)
    return f"{mean} [{low}, {high}]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", nargs="+", choices=sorted(ARMS), default=list(ARMS), metavar="ARM")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--out", type=Path, default=Path("runs/objectives"))
    parser.add_argument("--quick", action="store_true", help="one seed, two steps, few tasks")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="any key of the recipe")
    chosen = parser.parse_args()
    console, runs = Console(), []
    sets = [*COMMON, *(QUICK if chosen.quick else []), *chosen.set]
    steps = chosen.steps or (QUICK_STEPS if chosen.quick else 40)
    chosen.out.mkdir(parents=True, exist_ok=True)
    try:
        for seed in range(1 if chosen.quick else chosen.seeds):
            for arm in chosen.arms:
                runs.append(run_arm(arm, seed, chosen.out, steps, sets))
                console.print(f"{arm}, seed {seed}: held out {runs[-1]['held_out']:.3f}", markup=False)
                report(runs, chosen.arms, chosen.out)
    except AgentGymError as error:
        console.print(f"[red]{escape(str(error))}")
        return 1
    console.print((chosen.out / "table.md").read_text(encoding="utf-8"), markup=False, soft_wrap=True)
    return 0


def report(runs: Sequence[Mapping[str, Any]], arms: Sequence[str], out: Path) -> None:
    """Write the figures that are there so far."""
    (out / "results.json").write_text(json.dumps(runs, indent=1), encoding="utf-8")
    lines = [COLUMNS, ["---"] * len(COLUMNS), *table(runs, arms)]
    (out / "table.md").write_text("".join("| " + " | ".join(line) + " |\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
