"""The environments, horizons, feedback and estimators of `benchmarks/horizon.py`; a combination is a cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

from training_runs import from_start

from agentgym.training import Recipe

RECIPES = Path(__file__).parents[1] / "recipes"
GROUP_SIZE = 8
TINY_EPISODES_PER_STEP = 64
VALIDATE_EVERY = 4
TARGET = 0.8
UNSEEN_HORIZONS = (3, 6, 12, 24)
SPARE_TURNS = 2  # beside the horizon, for a call that could not be read

ENVIRONMENTS: Mapping[str, tuple[str, str]] = {
    "doors": ("horizon_doors.toml", "every_door"),
    "first_door": ("horizon_doors.toml", "first_door"),
    "sql": ("horizon_sql.toml", "horizon"),
    "chores": ("horizon_chores.toml", "horizon"),
    "web": ("horizon_web.toml", "horizon"),
    "doors_smollm2": ("horizon_smollm2.toml", "every_door"),
}
"""The recipe of each environment, and the prefix of its tasks' tag, which the number of turns follows."""

PRETRAINED = ("doors_smollm2",)
"""Played by a pretrained model, with fewer episodes; only on request, and not at the unseen horizons."""

ARMS: Mapping[str, str] = {
    "outcome": "grpo(turn_weight=0.0)",
    "flattened": "rloo",
    "return_to_go": "return_to_go",
    "mt_grpo": "mt_grpo(scale='std')",
    "gtpo": "gtpo",
    "gigpo": "gigpo",
    "turn_gae": "turn_gae(lam=0.9)",
    "potential_shaping": "potential_shaping",
    "vine": "vine",
    "sibling": "sibling",
    "tree": "tree",
}
"""`outcome` reads the outcome alone; `flattened` adds all turn rewards to it: more content, but no placement."""

VINE_TURNS = 8
"""`vine` plays 4 episodes from every turn of 64 episodes; beyond this horizon it is left out of a grid."""

NEED_NO_TURN_REWARDS = ("outcome", "gigpo", "turn_gae", "potential_shaping", "vine", "sibling", "tree")
"""Arms that differ from each other where only the outcome is rewarded; the others equal `rloo` there."""


def feedback_options(feedback: str, horizon: int) -> dict[str, Any] | None:
    """Return the options of `subgoal_feedback`; None if only the outcome is rewarded. Raises: KeyError."""
    quarter = max(1, horizon // 4)
    options: dict[str, dict[str, Any] | None] = {
        "outcome": None,
        "dense": {},
        "sparse": {"every": quarter},
        "delayed": {"delay": quarter},
        "misleading": {"basis": "calls"},
        "last": {"placement": "last"},
        "even": {"placement": "even"},
        "wrong": {"placement": "wrong"},
        "noisy": {"noise": 1 / horizon},
        "very_noisy": {"noise": 4 / horizon},
    }
    return options[feedback]


@dataclass(frozen=True, order=True)
class Cell:
    """One training run: an estimator in an environment, at a horizon, with a kind of feedback, under one seed."""

    environment: str
    horizon: int
    feedback: str
    arm: str
    seed: int

    @property
    def folder(self) -> Path:
        """Return the folder below the benchmark's. Runs that begin with the same weights and tasks are siblings."""
        return Path(f"{self.environment}-{self.horizon}") / f"seed-{self.seed}" / f"{self.feedback}-{self.arm}"

    @property
    def group(self) -> tuple[str, int, str]:
        """Return the settings shared by all estimators that are compared with each other."""
        return self.environment, self.horizon, self.feedback

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def episodes_per_step(environment: str) -> int:
    """Return the number of episodes that a run plays between two updates."""
    return 16 if environment in PRETRAINED else TINY_EPISODES_PER_STEP


def start_recipe(environment: str, seed: int) -> Recipe:
    """Return the recipe of the warm start that all cells of an environment and a seed share."""
    file, _ = ENVIRONMENTS[environment]
    return Recipe.load(RECIPES / file, [f"seed={seed}", "train.steps=0", "evaluate.tasks=1", "evaluate.group_size=1"])


def recipe_of(cell: Cell, start: Path, steps: int) -> Recipe:
    """Return the recipe of a cell, which trains from the shared start for `steps` steps or until it has learned.

    The recipe of a cell with one of `UNSEEN_HORIZONS` plays held-out tasks, and is not for training.
    """
    file, prefix = ENVIRONMENTS[cell.environment]
    data = Recipe.load(RECIPES / file, [f"seed={cell.seed}"]).model_dump(exclude_none=True)
    per_turn = data["episode"]["max_episode_tokens"] // data["episode"]["max_turns"]
    turns = cell.horizon + SPARE_TURNS
    data["name"] = f"horizon-{cell.environment}"
    data["tasks"]["tags"] = [f"{prefix}_{cell.horizon}"]
    data["episode"] |= {"max_turns": turns, "max_episode_tokens": per_turn * turns}
    if (options := feedback_options(cell.feedback, cell.horizon)) is not None:
        data["reward"] = {"also": ["subgoal_feedback"], "options": {"subgoal_feedback": options}}
    else:
        data.pop("reward", None)
    data["train"] |= {
        "steps": steps,
        "tasks_per_step": episodes_per_step(cell.environment) // GROUP_SIZE,
        "group_size": GROUP_SIZE,
        "estimator": ARMS[cell.arm],
        "validate_every": VALIDATE_EVERY,
        "validate_tasks": 16 if cell.environment in PRETRAINED else 40,
        "until_success": TARGET,
        "save_every": 20,
        "keep_checkpoints": 1,
    }
    data["evaluate"] = {"temperature": 1.0, "group_size": 1}
    data["train"].pop("sampler", None)  # the tag selects the tasks of every split
    data["guard"] = {"on_alarm": "off"}
    return from_start(data, start, file)


def grid(
    environments: Sequence[str],
    horizons: Sequence[int],
    feedbacks: Sequence[str],
    arms: Sequence[str] | None,
    seeds: Iterable[int],
) -> list[Cell]:
    """Return the cells of a grid, one seed after the other, so that an interrupted grid still compares all arms.

    The arm `outcome` reads no turn rewards, so it occurs once, under the feedback "outcome".
    """
    cells = []
    for seed, environment, horizon, feedback in product(seeds, environments, horizons, feedbacks):
        for arm in arms if arms is not None else ARMS:
            if arm == "vine" and horizon > VINE_TURNS:
                continue
            if arm in NEED_NO_TURN_REWARDS if feedback == "outcome" else arm != "outcome":
                cells.append(Cell(environment, horizon, feedback, arm, seed))
    return cells
