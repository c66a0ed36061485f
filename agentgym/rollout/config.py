"""RolloutConfig: how episodes are played, with options defined once for the library, recipes and the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, fields, replace
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, SkipValidation

from agentgym.environment.contract import Environment
from agentgym.number_types import Count
from agentgym.options import Registered, validated_dataclass
from agentgym.registry import environment_of
from agentgym.reward.contract import Reward
from agentgym.rollout.budgets import Budgets
from agentgym.rollout.hooks import EpisodeHook
from agentgym.rollout.prompt import Prompt, PromptSource
from agentgym.sandbox import Backend
from agentgym.task.definition import Task, own_data
from agentgym.trajectory import PromptAddition

_SETUP = {"group_size", "concurrency", "backend", "engine", "state_keys", "max_failures_in_a_row", "stall_warning_s"}
"""Options that do not change any episode."""


@validated_dataclass(kw_only=True)
class RolloutConfig:
    """How episodes are played. EpisodeManager, evaluate(), training, recipes and the commands all take one.

    Raises: ValueError naming each wrong option, its value and the accepted values.
    """

    group_size: Count = 1
    """How many episodes of each task are played."""
    temperature: Annotated[float, Field(ge=0)] | None = None
    """The sampling temperature. 0 takes the likeliest token. By default it is 1, but 0 in an evaluation that plays each
    task once."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Nucleus sampling: sample from the smallest set of tokens that holds this much probability. 1.0 keeps all
    tokens."""
    budgets: Budgets = Budgets()
    """The bounds of each episode."""
    attempts: EpisodeHook | None = None
    """Let an episode try its task several times, with feedback in between. By default an episode is one attempt."""
    concurrency: Count = 64
    """How many episodes, and so environments, are open at the same time."""
    seed: int = 0
    """The seed of all randomness.

    The seed of each request is made from it, the label of the run, the task, the episode's number in its group and the
    turn. The seed of the environment is made from it and the task alone, so that the episodes of a group start
    equal."""
    reward: Annotated[Reward | str | None, Registered("rewards")] = None
    """The registered reward that judges. By default it is the environment's own.

    In Python it may also be a Reward."""
    environment: Annotated[str | Callable[..., Environment] | None, Registered("environments", "ID|URL")] = None
    """Play in this environment instead of the one that each task names: another registered id, or the address of an
    environment on a server, such as http://10.0.0.7:8650/agentgym/sql-v1. An address that ends with a slash,
    http://10.0.0.7:8650/, stands for each task's own environment there.

    In Python it may also be a function that makes an environment."""
    environment_options: Mapping[str, Any] = field(default_factory=dict)
    """Options that are passed to the environment's constructor."""
    source_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """For a mixture: further options for the environments of each set's tasks, by the name of the set."""
    backend: Annotated[Backend | str | None, SkipValidation, Registered("backends")] = None
    """The registered backend that makes sandboxes. By default it is `namespaces`.

    In Python it may also be a Backend."""
    engine: Annotated[Any, SkipValidation] = None
    """Where episodes are played. By default it is this process.

    It may also be a RayEngine of `agentgym.cluster`, or another Engine."""
    state_keys: bool = True
    """Whether each turn records the environment's state key.

    Estimators such as GiGPO, the credit audit, and the comparison of a replay with its record read
    `Environment.state_key`. Set it to False if a key is slow to compute."""
    stop_if: tuple[EpisodeHook, ...] = ()
    """Rules that end an episode which will not succeed any more, such as `NoProgress(turns=4)`.

    The episode is then truncated with the stop reason `hopeless`, and scored as it is. The rules are applied before
    each turn except the first turn of an attempt. A measurement without rules gives each episode its whole budget."""
    hooks: tuple[EpisodeHook, ...] = ()
    """Further episode hooks, which look at each turn. They come after the rules of `stop_if` and before `attempts`.

    Rules and attempts are hooks, too; see EpisodeHook."""
    max_failures_in_a_row: Count | None = 100
    """How many failed episodes in a row end the run with an error that lists the causes. Failed episodes are played
    again when the run is resumed. None never ends the run."""
    stall_warning_s: Annotated[float, Field(gt=0)] | None = 300.0
    """After how many seconds without progress in any episode a warning says what the episodes wait for.

    None gives no warning."""
    instruction: str = ""
    """Text at the beginning of the system message of every task, before the environment's own text if it has any."""
    knowledge: PromptSource | None = None
    """Knowledge gained from training episodes. Each episode is shown the part that helps with its task. All episodes of
    a batch see the knowledge as it was when the batch began; `knowledge.learn(trajectories)` between batches adds to
    it."""

    @property
    def episode_hooks(self) -> tuple[EpisodeHook, ...]:
        """Every hook of an episode, in calling order."""
        return (*self.stop_if, *self.hooks, *(() if self.attempts is None else (self.attempts,)))

    @property
    def prompt(self) -> Prompt:
        """The texts that agents read in addition to their environments' messages, with the current knowledge."""
        fixed = (PromptAddition("instruction", self.instruction, "system"),) if self.instruction else ()
        return Prompt(fixed, () if self.knowledge is None else (self.knowledge.view(),))

    def environment_for(self, task: Task) -> str | Callable[..., Environment]:
        """Return the registered name of a task's environment, or the callable that makes every environment."""
        return self.environment if callable(self.environment) else environment_of(self.environment, task.environment)

    def options_for(self, task: Task) -> dict[str, Any]:
        """Return the constructor options of a task's environment, as a copy that the environment may change."""
        own: dict[str, Any] = own_data({**self.environment_options, **self.source_options.get(task.source or "", {})})
        return own

    def identity(self) -> dict[str, Any]:
        """Return the options that episodes depend on. The ledger compares them when a run resumes under its label.

        Options that do not change an episode are omitted: where it is played, how many at once, what else is recorded.
        """
        facts = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _SETUP | {"budgets"}}
        # the address of the server makes no difference to the episode
        if isinstance(self.environment, str) and "://" in self.environment:
            facts["environment"] = urlsplit(self.environment).path.strip("/") or None
        if hasattr(self.engine, "identity"):
            facts |= self.engine.identity()
        if not self.source_options:
            del facts["source_options"]
        facts["temperature"] = 1.0 if self.temperature is None else self.temperature
        budgets = {each.name: getattr(self.budgets, each.name) for each in fields(self.budgets)}
        return facts | {name: value for name, value in budgets.items() if name not in ("infra_retries", "reply_s")}

    def at_temperature(self, temperature: float) -> RolloutConfig:
        """Return the config at another temperature, for example for a measurement; at 0, `top_p` is reset to 1."""
        return replace(self, temperature=temperature, top_p=self.top_p if temperature else 1.0)
