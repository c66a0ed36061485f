"""A recipe: one TOML file that describes a whole run, checked before anything heavy starts."""

from __future__ import annotations

import re
import tomllib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import tomli_w
from pydantic import Field, ValidationError, model_validator

from agentgym.deprecation import AgentGymDeprecationWarning
from agentgym.errors import RecipeError
from agentgym.evaluation.guard_section import GuardSection
from agentgym.options import Section, explain_refusal
from agentgym.policy.policy_section import PolicySection
from agentgym.policy.vllm_section import VllmSection
from agentgym.reward.contract import Reward
from agentgym.rollout.config import RolloutConfig
from agentgym.task.task_set import TaskSet
from agentgym.training.recipe.episode_section import EpisodeSection, parse_hooks
from agentgym.training.recipe.evaluate_section import EvaluateSection
from agentgym.training.recipe.hardware_section import HardwareSection
from agentgym.training.recipe.keys import override_key, recipe_file, with_current_keys
from agentgym.training.recipe.names import check_names
from agentgym.training.recipe.reward_section import RewardSection
from agentgym.training.recipe.stage_section import StageSection
from agentgym.training.recipe.tasks_section import TasksSection
from agentgym.training.recipe.train_groups import KeyGroup
from agentgym.training.recipe.train_section import TrainSection
from agentgym.training.recipe.warm_start_section import WarmStartSection

STATE_KEY_READERS = frozenset({"state_keys", "branches", "continuations", "counterfactuals"})
"""Signals that read an episode's state keys; the last three do so to compare a replay with the recorded episode."""


class Recipe(Section):
    """A whole run: tasks, policy, warm start, training, evaluation and collapse guard."""

    name: Annotated[str, Field(min_length=1)]
    """The name of the run. Its folder is runs/<name>, unless --out names another."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """The seed of all randomness of the run."""
    track: list[str] = ["tensorboard"]
    """Where metrics go besides metrics.jsonl, for example "wandb", see `agentgym list trackers`."""
    track_episodes: Annotated[int, Field(ge=0)] = 4
    """The number of each step's episodes whose conversations trackers show."""
    tasks: TasksSection
    """The tasks to train on, to validate with and to hold out."""
    policy: PolicySection
    """The model to train."""
    episode: EpisodeSection = EpisodeSection()
    """The budgets of an episode, and how its turns are sampled."""
    reward: RewardSection = RewardSection()
    """The rewards that judge. By default each environment's own reward judges."""
    warm_start: WarmStartSection | None = None
    """Imitation before the training. Without this section there is none."""
    train: TrainSection = TrainSection()
    """The reinforcement."""
    evaluate: EvaluateSection = EvaluateSection()
    """The measurement on held-out tasks."""
    guard: GuardSection = GuardSection()
    """When a training counts as collapsing, and the reaction."""
    machine: HardwareSection = HardwareSection()
    """The hardware that trains, and where episodes are played."""
    vllm: VllmSection | None = None
    """A vLLM server that samples. Without this section the training process samples."""
    stage: list[StageSection] = []
    """The stages of the run in their order. By default the sections above give the usual stages."""

    @model_validator(mode="after")
    def _sections_that_fit(self) -> Recipe:
        if self.policy.lora and self.train.reference.moves_as != "fixed":
            raise ValueError(
                f"train.reference.{'kind' if self.train.reference.kind else 'reset_every'}: with [policy.lora] the "
                "reference is the base model and cannot change. Leave this key out"
            )
        names = [stage.given_name for stage in self.stage]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"two entries of [[stage]] have the name {repeated[0]!r}: give one of them another `name`")
        if self.evaluate.zero_shot and not (self.policy.path and self.warm_start):
            raise ValueError(
                "evaluate.zero_shot measures the model of policy.path before its [warm_start]: give both, or leave "
                "zero_shot out"
            )
        return self

    @model_validator(mode="after")
    def _roles_that_fit(self) -> Recipe:
        roles = self.policy.lora.roles if self.policy.lora else []
        without = {
            "[vllm]": self.vllm is not None,
            "machine.sharding": self.machine.sharding is not None,
            "machine.gradient_checkpointing": self.machine.gradient_checkpointing,
            'train.generation = "trl"': self.train.generation == "trl",
        }
        if roles and (unfit := [name for name, there in without.items() if there]):
            raise ValueError(f"policy.lora.roles and {unfit[0]} cannot be combined: leave out one of them")
        return self

    def make_reward(self, task_set: TaskSet) -> Reward | str | None:
        """Make the reward of [reward]; None means each environment's own. Raises: RecipeError, UnknownNameError."""
        return self.reward.make_for(task_set)

    def rollout_config(self, task_set: TaskSet) -> RolloutConfig:
        """Return the rollout config of the run's episodes. Raises: as `make_reward`."""
        config = self.episode.config(seed=self.seed, reward=self.make_reward(task_set))
        config = replace(config, source_options=self.tasks.source_options)
        is_read = bool(STATE_KEY_READERS & set(self.train.make_estimator().requires)) or self.train.reads_state_keys
        state_keys = is_read if self.episode.state_keys is None else self.episode.state_keys
        return replace(config, state_keys=state_keys, engine=self.machine.make_engine(self.episode, task_set))

    @property
    def stages(self) -> Sequence[StageSection]:
        """The sections [[stage]]; in a recipe without them, the usual stages for its other sections."""
        usual = (
            (self.evaluate.zero_shot, StageSection(kind="evaluate", name="zero_shot")),
            (self.warm_start is not None, StageSection(kind="imitate")),
            (True, StageSection(kind="evaluate", name="before")),
            (self.train.steps > 0, StageSection(kind="reinforce")),
            (True, StageSection(kind="evaluate", name="after")),
            (bool(self.evaluate.control), StageSection(kind="control")),
        )
        return self.stage or [section for is_asked_for, section in usual if is_asked_for]

    def evaluation_config(self, config: RolloutConfig) -> RolloutConfig:
        """Return the rollout config of validations and evaluations, with full budgets and the options of [evaluate].

        Args:
            config: the config of the run's episodes.
        """
        section, full = self.evaluate, self.episode.budgets
        budgets = replace(
            full,
            max_turns=section.max_turns or full.max_turns,
            max_turn_tokens=section.max_turn_tokens or full.max_turn_tokens,
        )
        return replace(config, budgets=budgets, stop_if=parse_hooks(section.stop_if))

    @classmethod
    def load(cls, path: str | Path, overrides: list[str] | tuple[str, ...] = ()) -> Recipe:
        """Read and check a recipe; `overrides` are texts such as `train.steps=10`.

        Args:
            path: the file, or the name of a bundled recipe such as quickstart.

        Raises: RecipeError naming file, key and value, with the nearest known key.
        """
        path = recipe_file(path)
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise RecipeError(f"Cannot read the recipe {path}: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise RecipeError(f"The recipe {path} is not UTF-8 text: {error}. Save it as UTF-8.") from error
        except tomllib.TOMLDecodeError as error:
            raise RecipeError(f"The recipe {path} is not valid TOML: {error}.{_toml_hint(path, error)}") from error
        data = with_current_keys(data, str(path))
        for override in overrides:
            override_key(data, override)
        return cls.parse(data, str(path))

    @classmethod
    def load_recorded(cls, path: Path) -> Recipe:
        """Read the recipe in a run folder. Old keys give no warning, because a recorded recipe should not be edited.

        Raises: as `load`.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AgentGymDeprecationWarning)
            return cls.load(path)

    @classmethod
    def parse(cls, data: dict[str, Any], where: str = "recipe") -> Recipe:
        """Check recipe data: keys, values and registered names. Raises: RecipeError."""
        try:
            recipe = cls.model_validate(with_current_keys(data, where))
        except ValidationError as error:
            raise RecipeError(f"{where}: {explain_refusal(error, cls)}") from error
        names = ("policy", "reward", "episode", "stage", "train")
        check_names(where, {name: getattr(recipe, name) for name in names}, tasks=recipe.tasks, train=recipe.train)
        return recipe

    def with_options(self, section: str, options: Mapping[str, Any], where: str) -> Recipe:
        """Return the recipe without [[stage]] and with options replacing keys of a section. Raises: as `parse`."""
        own = getattr(self, section)
        replaced = {} if own is None else own.model_dump(exclude_none=True)
        for name, value in with_current_keys({section: dict(options)}, where)[section].items():
            is_group = isinstance(getattr(own, name, None), KeyGroup) and isinstance(value, dict)
            replaced[name] = replaced[name] | value if is_group else value
        return Recipe.parse(dict(self) | {"stage": [], section: replaced}, where)

    def to_toml(self) -> str:
        """Return the resolved recipe as TOML with every default; reading it gives an equal recipe."""
        return tomli_w.dumps(self.model_dump(exclude_none=True))


def _toml_hint(path: Path, error: Exception) -> str:
    """Return a hint with the unreadable line and, if the line has an unquoted text, with the quoted form."""
    if (position := re.search(r"at line (\d+)", str(error))) is None:
        return ""
    line = path.read_text(encoding="utf-8-sig").splitlines()[int(position[1]) - 1 :][:1]
    hint = f" The line is: {line[0].strip()!r}." if line else ""
    if line and (bare := re.fullmatch(r"\s*([\w.-]+)\s*=\s*([A-Za-z][^\"'#\[\]{}]*?)\s*(#.*)?", line[0])):
        hint += f' A text stands in quotes: {bare[1]} = "{bare[2]}".'
    return hint
