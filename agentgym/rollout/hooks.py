"""Episode hooks: they look at an episode after each turn, and may end it or let it continue.

The play loop asks the policy, runs the calls, judges the turn and shows the agent the results. Everything else is a
hook: stop rules, several attempts at a task, and user extensions. `RolloutConfig(hooks=(...))` adds hooks to a run; a
package registers its hooks under the kind `episode_hooks`.

One turn, in order: every hook's `before_turn`; the policy's message; the calls; the rewards of the turn; the state
before the next turn, unless the turn ended the episode; every hook's `after_turn`, each with the stop reason that the
hook before it returned.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any, ClassVar

from agentgym.environment.contract import Environment
from agentgym.messages import Message, StopReason
from agentgym.registry import load
from agentgym.rollout.budgets import BudgetUsage
from agentgym.rollout.environment_handle import EnvironmentHandle, EnvironmentState
from agentgym.rollout.failures import Retries
from agentgym.rollout.judging import Judge
from agentgym.rollout.replay import Fork
from agentgym.trajectory import Provenance
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """A hook's decision after a turn.

    Attributes:
        stop: the reason that ends the episode; None lets it continue.
        messages: messages that the agent reads after the results of its calls.
        renew: whether the agent continues in a fresh environment, reset with the same seed. The conversation continues;
            opening messages that differ from the first ones follow `messages`.
    """

    stop: StopReason | None = None
    messages: Sequence[Message] = ()
    renew: bool = False


class EpisodeHandle:
    """A hook's view of the running episode.

    Attributes:
        trajectory: the record so far.
        start: index of the first turn in the current environment.
    """

    def __init__(
        self,
        trajectory: Trajectory,
        environment: EnvironmentHandle,
        usage: BudgetUsage,
        retries: Retries,
        fork: Fork | None,
    ) -> None:
        self.trajectory = trajectory
        self.start = 0
        self._environment, self._usage, self._retries, self._fork = environment, usage, retries, fork

    @property
    def environment(self) -> Environment:
        """The agent's current environment."""
        return self._environment.current

    @property
    def state(self) -> EnvironmentState:
        """The most recently read state of the environment, which is the state before the next turn."""
        return self._environment.state

    @property
    def turns(self) -> Sequence[Turn]:
        """The turns in the current environment."""
        return self.trajectory.turns[self.start :]

    @property
    def turns_left(self) -> int:
        """How many turns the budgets leave."""
        return self._usage.budgets.max_turns - len(self.trajectory.turns)

    @property
    def recorded_turn(self) -> Turn | None:
        """The recorded turn that the last turn repeats, in a branch or a replay; None for a new turn."""
        taken = len(self.trajectory.turns)
        if self._fork is None or not 0 < taken <= self._fork.turn:
            return None
        return self._fork.trajectory.turns[taken - 1]

    def used_up(self) -> StopReason | None:
        """Return the stop reason of a budget that allows no further turn; None if there is none."""
        return self._usage.used_up()

    def note(self, activity: str) -> None:
        """Set the current activity, such as "judging the attempt", for error messages and standstill reports."""
        self._retries.note(activity)


class EpisodeHook:
    """Base of the hooks: subclass it, and override the methods that the hook needs.

    One instance serves all episodes of a run. A hook may depend only on the episode (its record, state and seed), so
    that a resumed or replayed run gives the same result.

    Attributes:
        name: the registered name. An episode's record keeps the options of each named hook, so that a replay, a branch
            and a rescoring use the same hooks.
        reads_state_keys: whether turns must record the environment's state key.
        needs_reward: whether the reward is computed even if episodes are not judged, as in a replay.
        fits_programs: whether the hook supports episodes played by a program: it then neither adds messages nor renews
            the environment.
    """

    name: ClassVar[str] = ""
    reads_state_keys: ClassVar[bool] = False
    needs_reward: ClassVar[bool] = False
    fits_programs: ClassVar[bool] = True

    def options(self) -> dict[str, Any]:
        """Return the options that recreate the hook, as JSON data; for a dataclass, its fields."""
        options: dict[str, Any] = json.loads(json.dumps(asdict(self))) if is_dataclass(self) else {}
        return options

    @property
    def weights(self) -> Mapping[str, float]:
        """The weights of the reward components that the hook adds; the reward's own weights take precedence."""
        return {}

    def for_episode(self) -> EpisodeHook:
        """Return the hook for one episode: this one, or a new one that may keep state of the episode."""
        return self

    def wrap_judge(self, judge: Judge) -> Judge:
        """Return the judge of the episode: `judge`, or another judge around it."""
        return judge

    async def before_turn(self, episode: EpisodeHandle) -> None:
        """Inspect the episode before the policy is asked for a message."""

    async def after_turn(self, episode: EpisodeHandle, turn: Turn, stop: StopReason | None) -> TurnOutcome:
        """Decide how the episode continues after a turn.

        Args:
            turn: the turn, with its results and rewards.
            stop: the reason that ends the episode unless the hook continues it; None if nothing ends it.
        """
        return TurnOutcome(stop)

    def renewed_after(self, turn: Turn) -> bool:
        """Return whether the hook renewed the environment after a turn, according to the turn's record."""
        return False

    async def after_episode(self, episode: EpisodeHandle) -> None:
        """Inspect an ended episode before its outcome is judged. The trajectory has its stop reason."""


def recorded_options(hooks: Iterable[EpisodeHook]) -> dict[str, dict[str, Any]]:
    """Return the options of the named hooks, in the form kept in an episode's record."""
    return {hook.name: hook.options() for hook in hooks if hook.name}


def recorded_hooks(provenance: Provenance) -> tuple[EpisodeHook, ...]:
    """Recreate the named hooks of an episode. Raises: UnknownNameError for a hook that is not installed."""
    return tuple(load("episode_hooks", name)(**options) for name, options in provenance.hooks.items())


def added_weights(hooks: Iterable[EpisodeHook]) -> dict[str, float]:
    """Return the weights of all reward components that the hooks add."""
    return {name: weight for hook in hooks for name, weight in hook.weights.items()}
