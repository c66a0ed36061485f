"""RolloutConfig: how episodes are played, each option spelt once for the library, recipes and the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import Annotated, Any

from pydantic import Field, SkipValidation

from agentgym.environment import Environment
from agentgym.knowledge import KnowledgeStore
from agentgym.options import validated_dataclass
from agentgym.reward import Reward
from agentgym.rollout.attempts import Attempts
from agentgym.rollout.budgets import Budgets, Count
from agentgym.rollout.early_stop import StopRule
from agentgym.sandbox import Backend


@validated_dataclass(kw_only=True)
class RolloutConfig:
    """How episodes are played. EpisodeManager, evaluate(), training, recipes and the commands all take one.

    Attributes:
        group_size: episodes of each task.
        temperature: of sampling; at 0 the likeliest token is taken. None means 1.0, but 0 in an evaluation that plays
            each task once.
        top_p: the smallest set of tokens with this probability is sampled from; 1.0 is all.
        budgets: bounds of each episode.
        attempts: lets an episode try its task several times, with feedback in between; see Attempts. None is once.
        concurrency: how many episodes, and so environments, exist at once.
        seed: with the label of the run, the task, the episode's number in its group and the turn it seeds every
            request; with the task alone it seeds the environment, so that the episodes of a group start equal.
        reward: who judges: a Reward, a registered name, or None for the reward that the environment declares.
        environment: None for the one each task names; another registered id; a function that makes one; the address of
            one on an environment server, http://10.0.0.7:8650/agentgym/sql-v1; or of a server, http://10.0.0.7:8650/,
            where the slash at the end stands for the environment that each task names.
        environment_options: passed to the environment's constructor.
        backend: makes the sandboxes; a registered name or a Backend, by default `namespaces`.
        engine: where episodes are played: None for this process, or a RayEngine of `agentgym.cluster`.
        state_keys: whether each turn records `Environment.state_key`. Estimators such as GiGPO, the credit audit, and
            the comparison of a replay with its record read it. False helps where a key is slow to make.
        stop_if: rules that end an episode which will not succeed any more, such as `NoProgress(turns=4)`. It is then
            truncated with the stop reason `hopeless`, and scored as it stands. They are asked before each turn but the
            first of an attempt. A measurement without them gives each episode its whole budget.
        max_failures_in_a_row: so many episodes that the infrastructure failed, one after another, end the run, and are
            played again when it is resumed; None for no such end.
        stall_warning_s: seconds without progress in any episode after which a warning says what they wait for; None
            for no warning.
        instruction: precedes every task as a system message, before the environment's own words where it has one.
        knowledge: what training episodes have taught. Each episode is shown what helps with its task, as it was known
            when the batch of episodes began; `knowledge.learn(trajectories)` between batches adds to it.
    Raises: ValueError naming each option that is wrong, its value and what it may be.
    """

    group_size: Count = 1
    temperature: Annotated[float, Field(ge=0)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    budgets: Budgets = Budgets()
    attempts: Attempts | None = None
    concurrency: Count = 64
    seed: int = 0
    reward: Reward | str | None = None
    environment: str | Callable[..., Environment] | None = None
    environment_options: Mapping[str, Any] = field(default_factory=dict)
    backend: Annotated[Backend | str | None, SkipValidation] = None
    engine: Annotated[Any, SkipValidation] = None
    state_keys: bool = True
    stop_if: tuple[StopRule, ...] = ()
    max_failures_in_a_row: Count | None = 100
    stall_warning_s: Annotated[float, Field(gt=0)] | None = 300.0
    instruction: str = ""
    knowledge: KnowledgeStore | None = None

    def at_temperature(self, temperature: float) -> RolloutConfig:
        """The same config at another temperature, as for a measurement; at 0 `top_p` has nothing to choose from."""
        return replace(self, temperature=temperature, top_p=self.top_p if temperature else 1.0)
