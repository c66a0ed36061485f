"""A recipe: one TOML file that says a whole run, checked before anything heavy starts."""

from __future__ import annotations

import tomllib
import warnings
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import Field, ValidationError, field_validator, model_validator

from agentgym import registry
from agentgym.deprecation import AgentGymDeprecationWarning
from agentgym.errors import RecipeError
from agentgym.options import Count, Rate, Section, Share
from agentgym.reward import Reward
from agentgym.rollout import RolloutConfig
from agentgym.rollout.engine import Engine, LocalEngine, engine_of
from agentgym.search import make_search
from agentgym.task import TaskSet
from agentgym.training.recipe.episode_section import EpisodeSection, parse_stop_rules
from agentgym.training.recipe.guard_section import GuardSection
from agentgym.training.recipe.keys import override_key, with_current_keys
from agentgym.training.recipe.names import check_names
from agentgym.training.recipe.policy_section import PolicySection
from agentgym.training.recipe.reward_section import RewardSection
from agentgym.training.recipe.stage_section import MICROBATCH_TOKENS, ReadsEpisodes, StageSection
from agentgym.training.recipe.tasks_section import TasksSection
from agentgym.training.recipe.train_section import TrainSection
from agentgym.training.recipe.vllm_section import VllmSection

STATE_KEY_READERS = frozenset({"state_keys", "branches", "continuations", "counterfactuals"})
"""Signals that read the state keys of a record; the last three to tell whether a replay went as the record did."""


class WarmStartSection(ReadsEpisodes):
    """Supervised imitation of oracle demonstrations; the loss is on the agent's own tokens alone.

    `demonstrations`: how many training tasks the scripted players play. `tags`: only tasks that carry one of these, so
    that other tasks teach nothing before reinforcement; by default all. `steps`: optimiser steps at most.
    `batch_size`: demonstrations of a step. `microbatch_tokens`: a step is computed in parts of at most so many tokens,
    padding included; fewer take less memory and change nothing else.
    `learning_rate`: at its highest; it decays to a tenth. The default suits `policy.tiny`; a pretrained model wants a
    tenth of it or less. `optimizer`: `muon` teaches a small model from scratch in less than half of the steps that
    `adamw` needs, at twice its rate. `save_every`: steps between two checkpoints, from which a broken-off warm start
    goes on.
    `imperfect_oracle`: the share of demonstrations by the task set's imperfect oracle, which uses the tools well
    for the wrong goal (see agentgym.training.demonstrations).
    `until_success`: stop the imitation as soon as success on validation tasks reaches it, so that reinforcement has
    something left to learn. `validate_every`: steps between two validations. `validate_tasks`: tasks of each, sampled
    as [evaluate] says.
    `episodes`, `earlier_rounds`: imitate these instead of demonstrations. `select`: which of them: "success" (the
    default), "best_of(n=1)", "weighted(temperature=1.0)", "score(component='name', minimum=1.0)", or of their turns
    "improved(temperature=1.0)"; see agentgym.training.selection.
    """

    demonstrations: Count = 1000
    tags: tuple[str, ...] = ()
    imperfect_oracle: Annotated[float, Field(ge=0, lt=1)] = 0.0
    steps: Annotated[int, Field(ge=0)] = 500
    batch_size: Count = 32
    learning_rate: Rate = 2e-3
    optimizer: Literal["adamw", "muon"] = "adamw"
    microbatch_tokens: Count = MICROBATCH_TOKENS
    save_every: Count = 200
    until_success: Share | None = None
    validate_every: Count = 50
    validate_tasks: Count = 64
    select: str | None = None

    @model_validator(mode="after")
    def _selects_among_episodes(self) -> WarmStartSection:
        if self.select is not None and not self.episodes:
            raise ValueError(f"select = {self.select!r} chooses among stored episodes: name some in `episodes`")
        return self


class EvaluateSection(Section):
    """Measurement on the held-out split, before and after.

    `tasks`: how many tasks, the same ones each time; by default all. `group_size`: episodes of each task.
    `temperature`: of sampling; 0 takes the likeliest token.
    `control`: task parameters to override in a third measurement of the trained policy: the same questions and truth,
    but tools that answer from another environment, for example `{seed = 1}`. A task solved there was guessed.
    `stratum`: the tag of the tasks that the headline figure is about; the tables show all tasks.
    `zero_shot`: measure the model of policy.path also before its warm start.
    `search`: over the turns of each episode, such as "best_first(nodes=200)"; see docs/stages.md. Its cost is recorded.
    `max_turns`, `max_turn_tokens`: of validations and evaluations, instead of those of [episode]. `stop_if`: rules
    that end their hopeless episodes early, as of [episode]; by default none, whatever training does.
    """

    tasks: Count | None = None
    group_size: Count = 1
    temperature: Annotated[float, Field(ge=0)] = 0.0
    control: dict[str, Any] = {}
    stratum: str | None = None
    zero_shot: bool = False
    search: str = ""
    max_turns: Count | None = None
    max_turn_tokens: Count | None = None
    stop_if: list[str] = []

    @field_validator("stop_if")
    @classmethod
    def _known_rules(cls, texts: list[str]) -> list[str]:
        parse_stop_rules(texts)
        return texts

    @model_validator(mode="after")
    def _honest_search(self) -> EvaluateSection:
        if self.search:
            make_search(self.search).check_evaluation()
        return self


class HardwareSection(Section):
    """The hardware.

    `device`: cpu, cuda or cuda:N; auto takes a GPU if there is one. `threads`: of torch; by default torch chooses.
    `lockstep`: wait for every live episode before a batch is sampled, so that batches, and with them every float, are
    the same in every run on a CPU. `max_batch`: requests in one forward pass.
    `max_batch_tokens`: tokens whose keys and values such a batch may hold at most. `gradient_checkpointing`: compute
    activations a second time for the gradient instead of keeping them; it takes about a third more time, and much less
    memory. `sharding`: with "fsdp", weights, gradients and the optimiser's state are shared out among the processes
    that torchrun starts; it needs [vllm].
    `engine`: where episodes are played: `local`, or `ray` for the nodes of a cluster. `address`: of the cluster, by
    default the one that runs on this host. `nodes`: how many it must have at least when the run begins.
    """

    device: str = "auto"
    threads: Count | None = None
    lockstep: bool = True
    max_batch: Count = 256
    max_batch_tokens: Count = 131_072
    gradient_checkpointing: bool = False
    sharding: Literal["fsdp"] | None = None
    engine: str = "local"
    address: str | None = None
    nodes: Count | None = None


class Recipe(Section):
    """A whole run: tasks, policy, warm start, training, evaluation and collapse guard.

    `name`: of the run; it is written to runs/<name> unless --out names a folder. `seed`: of all randomness.
    `tasks`: the task set. `policy`: the model. `episode`: budgets and sampling. `reward`: who judges; by default each
    environment's own reward. `warm_start`: imitation before the training; without this section there is none.
    `train`: reinforcement. `evaluate`: measurement on held-out tasks. `guard`: alarms. `machine`: the hardware.
    `vllm`: a server that samples. `stage`: the stages of the run, where they are not the usual ones. `track`: where the
    metrics go beside metrics.jsonl: tensorboard, wandb, trackio, mlflow.
    """

    name: Annotated[str, Field(min_length=1)]
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    track: list[str] = ["tensorboard"]
    tasks: TasksSection
    policy: PolicySection
    episode: EpisodeSection = EpisodeSection()
    reward: RewardSection = RewardSection()
    warm_start: WarmStartSection | None = None
    train: TrainSection = TrainSection()
    evaluate: EvaluateSection = EvaluateSection()
    guard: GuardSection = GuardSection()
    machine: HardwareSection = HardwareSection()
    vllm: VllmSection | None = None
    stage: list[StageSection] = []

    @model_validator(mode="after")
    def _sections_that_fit(self) -> Recipe:
        if self.policy.lora and self.train.reference.moves_as != "fixed":
            raise ValueError(
                f"train.reference.{'kind' if self.train.reference.kind else 'reset_every'}: the reference of a LoRA "
                "adapter stays; leave it out"
            )
        names = [stage.given_name for stage in self.stage]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"two entries of [[stage]] are called {repeated[0]!r}: give one of them another `name`")
        if self.evaluate.zero_shot and not (self.policy.path and self.warm_start):
            raise ValueError("evaluate.zero_shot measures the model of policy.path before its [warm_start]: give both")
        return self

    @model_validator(mode="after")
    def _roles_that_fit(self) -> Recipe:
        roles = self.policy.lora.roles if self.policy.lora else []
        if unknown := [role for role in self.train.role_order if role not in roles]:
            known = ", ".join(roles) or "none"
            raise ValueError(f"train.role_order: {unknown[0]!r} has no adapter; policy.lora.roles has {known}")
        if self.train.rotate_roles_every and not roles:
            raise ValueError("train.rotate_roles_every: no adapters could change hands; name policy.lora.roles")
        without = {
            "[vllm]": self.vllm is not None,
            "machine.sharding": self.machine.sharding is not None,
            "machine.gradient_checkpointing": self.machine.gradient_checkpointing,
            'train.generation = "trl"': self.train.generation == "trl",
        }
        if roles and (unfit := [name for name, there in without.items() if there]):
            raise ValueError(f"policy.lora.roles and {unfit[0]} do not go together: leave out one of them")
        return self

    def make_reward(self, task_set: TaskSet) -> Reward | str | None:
        """Make the reward of [reward]; None means each environment's own. Raises: RecipeError, UnknownNameError."""
        environments = dict.fromkeys(task.environment for task in task_set["train"])
        declared = (registry.prototype(name).reward for name in environments)
        return self.reward.make(reward if isinstance(reward, str) else None for reward in declared)

    def rollout_config(self, task_set: TaskSet) -> RolloutConfig:
        """Return how the run's episodes are played. Raises: as `make_reward`."""
        config = self.episode.config(seed=self.seed, reward=self.make_reward(task_set))
        is_read = bool(STATE_KEY_READERS & set(self.train.make_estimator().requires)) or self.train.audit_every > 0
        state_keys = is_read if self.episode.state_keys is None else self.episode.state_keys
        return replace(config, state_keys=state_keys, engine=self._engine(task_set))

    def evaluation_config(self, config: RolloutConfig) -> RolloutConfig:
        """Return how episodes of validations and evaluations are played: with full budgets, and as [evaluate] says.

        Args:
            config: of the run's episodes.
        """
        section, full = self.evaluate, self.episode.budgets
        budgets = replace(
            full,
            max_turns=section.max_turns or full.max_turns,
            max_turn_tokens=section.max_turn_tokens or full.max_turn_tokens,
        )
        return replace(config, budgets=budgets, stop_if=parse_stop_rules(section.stop_if))

    def _engine(self, task_set: TaskSet) -> Engine | None:
        """Where the episodes are played; a cluster is asked for sandboxes if the tasks need some."""
        cluster, backend = self.machine, None
        if cluster.engine != LocalEngine.name and self.episode.environment is None:
            environments = dict.fromkeys(task.environment for task in task_set["train"])
            if any(registry.prototype(name).sandbox is not None for name in environments):
                backend = self.episode.backend or registry.DEFAULT_BACKEND
        options: dict[str, Any] = {"address": cluster.address, "nodes": cluster.nodes, "backend": backend}
        return engine_of(cluster.engine, program=self.episode.program, **options)

    @classmethod
    def load(cls, path: str | Path, overrides: list[str] | tuple[str, ...] = ()) -> Recipe:
        """Read and check a recipe; `overrides` are texts such as `train.steps=10`.

        Raises: RecipeError naming file, key and value, with the nearest known key.
        """
        path = Path(path)
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise RecipeError(f"Cannot read the recipe {path}: {error.strerror}.") from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise RecipeError(f"{path} is not valid TOML: {error}.") from error
        data = with_current_keys(data, str(path))
        for override in overrides:
            override_key(data, override)
        return cls.parse(data, str(path))

    @classmethod
    def load_recorded(cls, path: Path) -> Recipe:
        """Read the recipe that a run folder keeps. Its old keys give no warning: nobody should edit a record.

        Raises: as `load`.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AgentGymDeprecationWarning)
            return cls.load(path)

    @classmethod
    def parse(cls, data: dict[str, Any], where: str = "recipe") -> Recipe:
        """Check recipe data: keys, values, and that every name in it is registered. Raises: RecipeError."""
        try:
            recipe = cls.model_validate(with_current_keys(data, where))
        except ValidationError as error:
            raise RecipeError(explain(error, where)) from error
        check_names(recipe, where)
        return recipe

    def to_toml(self) -> str:
        """Return the resolved recipe with every default written out; it reads back equal."""
        return tomli_w.dumps(self.model_dump(exclude_none=True))


def explain(error: ValidationError, where: str, section: type[Section] = Recipe) -> str:
    """Say in one line what a section refuses, with the nearest known key. `where`: begins the line."""
    lines = []
    for item in error.errors(include_url=False):
        key = ".".join(map(str, item["loc"])) or "recipe"
        if item["type"] == "extra_forbidden":
            known = _keys_at(section, item["loc"][:-1])
            close = get_close_matches(str(item["loc"][-1]), known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else f" Known: {', '.join(known)}."
            lines.append(f"there is no key {key!r}.{hint}")
        elif item["type"] == "value_error":
            lines.append(f"{key}: {item['ctx']['error']}")
        elif item["type"] == "missing":
            lines.append(f"the key {key!r} is missing")
        else:
            lines.append(f"{key} = {item['input']!r}: {item['msg']}")
    return f"{where}: " + "; ".join(lines)


def _keys_at(section: type[Section], location: tuple[int | str, ...]) -> list[str]:
    model: Any = section
    for part in location:
        if isinstance(part, int):
            continue
        annotation = model.model_fields[str(part)].annotation
        choices = [a for a in (annotation, *getattr(annotation, "__args__", ())) if hasattr(a, "model_fields")]
        if not choices:
            return []
        model = choices[0]
    return list(model.model_fields)
