"""What a training step asks a gatherer for, and what plays the episodes of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

from agentgym.policy.contract import Policy
from agentgym.reward import Reward
from agentgym.rollout import Checkpoints, Fork, RolloutConfig
from agentgym.task import Task
from agentgym.training.rollouts.rollouts import EpisodeRecords
from agentgym.trajectory import PromptAddition, Trajectory

T = TypeVar("T")


def _no_more_tasks(count: int, further: int) -> Sequence[Task]:
    return []


class StepRollouts(Protocol):
    """What plays the episodes that a gatherer asks for: `agentgym.training.Rollouts`.

    Most gatherers use `play` and `branch` alone, by way of the StepRequest.

    Attributes:
        config: how episodes are played. It never changes.
        reward: who judges every episode; None where each environment has its own.
        records: the episodes that the run has recorded; None for a run without a ledger.
    """

    @property
    def config(self) -> RolloutConfig: ...

    @property
    def reward(self) -> Reward | None: ...

    @property
    def records(self) -> EpisodeRecords | None: ...

    def with_config(self, **changes: Any) -> StepRollouts:
        """Return rollouts that play with other options of the config: `with_config(instruction=...)`."""
        ...

    def play(
        self,
        policy: Policy | Callable[[Task], Policy],
        tasks: Sequence[Task],
        *,
        label: str,
        group_size: int | None = None,
        progress: float | None = None,
        on_trajectory: Callable[[Trajectory], None] | None = None,
        checkpoints: Checkpoints | None = None,
        assistance: Sequence[PromptAddition | None] = (),
    ) -> list[Trajectory]:
        """Play every task `group_size` times, groups consecutive. Raises: EpisodesFailed if every episode failed."""
        ...

    def branch(
        self, policy: Policy, forks: Sequence[Fork], group_size: int, *, label: str, record: bool = False
    ) -> list[Trajectory]:
        """Continue recorded episodes from their forks, `group_size` times each, in no order."""
        ...

    def finish(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something to its end on the event loop of the episodes, and return its result."""
        ...

    def report(self, line: str) -> None:
        """Show a line where failures of episodes are shown."""
        ...


@dataclass(frozen=True, slots=True)
class StepRequest:
    """What a training step asks a gatherer for.

    Attributes:
        rollouts: plays the episodes, as its config says. policy: who acts in them.
        tasks: a group is gathered of each.
        label: see `Rollouts.play`. Each call for more episodes needs a label of its own.
        group_size: trained episodes of each group.
        progress: see `Rollouts.play`.
        assist: `assist(task, row, group_size)` is what helps the agent in episode `row` of a group of this task (see
            agentgym.trajectory.PromptAddition), or None. Without the function there is no help.
        more_tasks: `more_tasks(count, further)` draws tasks beside those of the step; `further` is 1 for the first
            such draw of a step, 2 for the next. The same numbers give the same tasks.
    """

    rollouts: StepRollouts
    policy: Policy
    tasks: Sequence[Task]
    label: str
    group_size: int
    progress: float | None = None
    more_tasks: Callable[[int, int], Sequence[Task]] = _no_more_tasks
    assist: Callable[[Task, int, int], PromptAddition | None] | None = None

    def with_config(self, **changes: Any) -> StepRequest:
        """Return the request with other options of the rollout config: `with_config(instruction=...)`."""
        return replace(self, rollouts=self.rollouts.with_config(**changes))

    def play(
        self,
        tasks: Sequence[Task],
        label: str,
        group_size: int,
        *,
        policy: Policy | Callable[[Task], Policy] | None = None,
        assistance: Sequence[PromptAddition] = (),
        on_trajectory: Callable[[Trajectory], None] | None = None,
    ) -> list[Trajectory]:
        """Play further episodes for this step, groups consecutive, under a label of their own.

        Args:
            policy: who acts, by default that of the step.
            assistance: what helps in each episode, by default as `assist` says.
            on_trajectory: called with each episode when it ends.
        """
        options: dict[str, Any] = {"label": label, "group_size": group_size, "progress": self.progress}
        if on_trajectory is not None:
            options["on_trajectory"] = on_trajectory
        if assistance:
            options["assistance"] = assistance
        elif self.assist is not None:
            options["assistance"] = [self.assist(task, row, group_size) for task in tasks for row in range(group_size)]
        return self.rollouts.play(policy or self.policy, tasks, **options)

    def branch(self, forks: Sequence[Fork], group_size: int, label: str) -> list[Trajectory]:
        """Continue recorded episodes from their forks, `group_size` times each, in no order, and record them."""
        return self.rollouts.branch(self.policy, forks, group_size, label=label, record=True)
