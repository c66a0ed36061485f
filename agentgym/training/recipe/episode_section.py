"""The recipe's [episode]: budgets, their schedules over training, rules for hopeless episodes, and sampling."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import fields, replace
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from agentgym.credit.named_parts import parse_part
from agentgym.errors import CreditError, UnknownNameError
from agentgym.number_types import Positive
from agentgym.options import Count, Registered, Section
from agentgym.registry import load
from agentgym.reward.contract import Reward
from agentgym.rollout import EpisodeHook
from agentgym.rollout.budgets import Budgets
from agentgym.rollout.config import RolloutConfig
from agentgym.sandbox.limits import accepting, limit_names

Step = Annotated[int, Field(ge=0)]


class BudgetScheduleSection(Section):
    """Budgets by training step. Evaluations, and everything before training, use the budgets of [episode].

    Source: ScalingInter-RL, Xi et al. 2025, arXiv:2509.08755.
    """

    max_turns: tuple[tuple[Step, Count], ...] = ()
    """Pairs of a step and the turns that an episode may have from that step on, for example [[0, 5], [100, 10], [200,
    15]]. If empty, `episode.max_turns` applies."""
    max_turn_tokens: tuple[tuple[Step, Count], ...] = ()
    """Pairs of a step and the tokens that one message of the agent may have from that step on. If empty,
    `episode.max_turn_tokens` applies."""

    @field_validator("max_turns", "max_turn_tokens")
    @classmethod
    def _from_step_0_in_order(cls, pairs: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        steps = [step for step, _ in pairs]
        if steps and steps[0] != 0:
            raise ValueError(
                f"the first pair begins at step {steps[0]}: add a pair for step 0, so that every step has a value"
            )
        if any(later <= earlier for earlier, later in pairwise(steps)):
            raise ValueError(f"the steps {steps} are not in ascending order: sort the pairs, and give each step once")
        return pairs

    def largest(self) -> dict[str, int]:
        """Return the largest value of each scheduled budget."""
        return {name: max(value for _, value in pairs) for name, pairs in self if pairs}

    def at(self, step: int, budgets: Budgets) -> Budgets:
        """Return `budgets` with the scheduled values of batch `step`; the first batch of episodes is 0."""
        begun = {name: [value for since, value in pairs if since <= step] for name, pairs in self}
        return replace(budgets, **{name: values[-1] for name, values in begun.items() if values})


class AttemptsSection(Section):
    """Several attempts at the task in one episode, each in a fresh environment (see agentgym.methods.attempts)."""

    n: Annotated[int, Field(ge=2)] = 2
    """How many attempts an episode has at most."""
    feedback: Literal["verdict", "text", "none"] = "verdict"
    """What the agent reads after each attempt but the last: "verdict", whether the attempt was right; "text", what
    `Reward.feedback` returns; "none", only that there is another attempt."""
    until_solved: bool = False
    """End the episode after the first attempt that is right. The component `broke` is then 0."""
    improvement: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    """The weight in the return of `improvement`: success of the last attempt minus success of the first attempt."""
    earlier: Annotated[float, Field(allow_inf_nan=False)] = 0.0
    """The weight of the success of each attempt before the last, as the component `attempt_k` of its last turn."""


class ProgramSection(Section):
    """A program that plays each episode (docs/how-to/programs.md). A list is its command."""

    command: list[str] = []
    """The program and its arguments. `{task}` in it is replaced by the task, `{home}` by its home in the sandbox."""
    where: Literal["host", "sandbox"] = "host"
    """"host" runs it with your own rights; "sandbox" beside the task's files in the sandbox of its episode."""
    files: list[str] = []
    """Files of this host that are copied into the program's home in the sandbox."""
    package: str = ""
    """The installed package whose commands its sandbox has, such as "npm:@openai/codex@0.171.0" (`agentgym sandbox
    program`)."""
    environment: dict[str, str] = {}
    """Further environment variables of the program."""
    auxiliary_turns: bool = False
    """Whether a program's side requests (no tools, other instructions), such as for a title, are turns and trained."""

    @model_validator(mode="before")
    @classmethod
    def _command_alone(cls, value: Any) -> Any:
        return {"command": value} if isinstance(value, list) else value

    @model_validator(mode="after")
    def _has_command(self) -> ProgramSection:
        if not self.command and self != type(self).model_construct():
            raise ValueError("a program needs a command, for example command = ['codex', 'exec', '{task}']")
        return self

    @property
    def options(self) -> dict[str, Any] | None:
        """The arguments of AgentProgram; None without a program."""
        return self.model_dump() if self.command else None


class EpisodeSection(Section):
    """Budgets of an episode and how its turns are sampled."""

    documented_by = (Budgets, RolloutConfig)

    max_turns: Count = 8
    max_episode_tokens: Count = 1024
    """How many tokens an episode may have after its prompt, including results."""
    max_turn_tokens: Count = 256
    max_calls: Count = 64
    max_void_turns: Count = 3
    time_s: Positive = 120.0
    reply_s: Positive = 3600.0
    instruction: str = ""
    attempts: AttemptsSection | None = None
    """Let the agent try each task several times, in training and in every measurement. Without this section there is
    one attempt.
    """
    temperature: Positive = 1.0
    """The sampling temperature in training."""
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    concurrency: Count = 64
    backend: Annotated[str | None, Registered("backends")] = None
    accept_weaker: tuple[str, ...] = ()
    """Names of limits that sandboxes may lack where the machine cannot enforce them, such as ["memory", "cpu"] for an
    ordinary user without control groups; "all" stands for every limit (docs/security.md)."""
    environment: str | None = None
    environment_options: dict[str, Any] = {}
    pool: Annotated[int, Field(ge=0)] = 0
    """How many sandboxes of each kind are kept ready ahead of time, 0 for none. By default it is 8 for the backend
    `docker`, and 0 for `namespaces`, whose sandboxes take milliseconds to make (docs/benchmarks.md)."""
    state_keys: bool | None = None
    """Whether turns record the environment's state key. By default they do if the estimator or an audit reads it."""
    program: ProgramSection = ProgramSection()
    """A program that plays each episode, in training and in every measurement, instead of our own loop: its command, or
    a table of the keys below. It asks the policy over HTTP (docs/how-to/programs.md)."""
    schedule: BudgetScheduleSection = BudgetScheduleSection()
    """Other budgets for training episodes, which change with the training step."""
    stop_if: list[str] = []
    """Rules that end an episode of reinforcement that can no longer succeed: "hopeless" (the environment says so),
    "no_progress(turns=4)", "repeated_state(times=3)", "invalid_calls(turns=3)" and "out_of_reach" (the oracle would
    need more turns than are left). The episode is scored as it is; the wrapper `masked(hopeless=True)` removes it from
    the loss.
    """
    hooks: list[str] = []
    """Further episode hooks with their options, such as "reminder(every=2)", in training and in every measurement.
    `agentgym list episode_hooks` lists the names."""
    max_failures_in_a_row: Count = 100
    stall_warning_s: Positive = 300.0

    @field_validator("accept_weaker")
    @classmethod
    def _limits(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        try:
            return limit_names(names)
        except UnknownNameError as error:
            raise ValueError(str(error)) from error

    @model_validator(mode="before")
    @classmethod
    def _pool_for_docker(cls, table: Any) -> Any:
        """Keep a pool of containers by default: making one takes a third of the wall time of an episode."""
        return {"pool": 8, **table} if isinstance(table, dict) and table.get("backend") == "docker" else table

    @model_validator(mode="after")
    def _limits_of_training(self) -> EpisodeSection:
        for name, value in self.schedule.largest().items():
            if value > (full := getattr(self, name)):
                raise ValueError(
                    f"schedule.{name} rises to {value}, above {name} = {full}, which evaluations use: raise {name}, "
                    "or lower the schedule"
                )
        parse_hooks([*self.stop_if, *self.hooks])
        return self

    def accepting(self) -> AbstractContextManager[None]:
        """Let the sandboxes of this process lack the limits of `accept_weaker` while the block runs."""
        return accepting(self.accept_weaker)

    def budgets_at(self, step: int) -> Budgets:
        """Return the budgets of the training episodes of batch `step`; the first batch of episodes is 0."""
        return self.schedule.at(step, self.budgets)

    @property
    def budgets(self) -> Budgets:
        """The budgets of episodes to which no schedule applies."""
        return Budgets(**self._keys_of(Budgets))

    def config(self, *, seed: int, reward: Reward | str | None) -> RolloutConfig:
        """Return the RolloutConfig of these values. Stop rules and state keys depend on the stage: see `Recipe`."""
        others: dict[str, Any] = {
            "attempts": None
            if self.attempts is None
            else load("episode_hooks", "attempts")(**self.attempts.model_dump()),
            "hooks": parse_hooks(self.hooks),
            "stop_if": (),
            "state_keys": True,
        }
        return RolloutConfig(**self._keys_of(RolloutConfig) | others, budgets=self.budgets, seed=seed, reward=reward)

    def _keys_of(self, options: type[Any]) -> dict[str, Any]:
        """Return the values of this section's keys that are also options of a dataclass."""
        return {each.name: getattr(self, each.name) for each in fields(options) if each.name in type(self).model_fields}


def parse_hooks(texts: Sequence[str]) -> tuple[EpisodeHook, ...]:
    """Make episode hooks from texts with options, such as "no_progress(turns=4)".

    Raises: ValueError naming the unknown hook or option.
    """
    hooks = []
    for text in texts:
        try:
            part = parse_part(text)
            hooks.append(load("episode_hooks", part.name)(**part.options))
        except (CreditError, UnknownNameError) as error:
            raise ValueError(str(error)) from error
        except (TypeError, ValueError) as error:
            raise ValueError(f"{text!r} cannot be used: {error}") from error
    return tuple(hooks)
