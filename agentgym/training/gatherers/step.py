"""StepRequest, a training step's request to a gatherer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentgym.policy.contract import Policy
from agentgym.rollout import Fork
from agentgym.rollout.rollouts import Rollouts
from agentgym.task.definition import Task
from agentgym.trajectory import PromptAddition
from agentgym.trajectory.record import Trajectory


@dataclass(frozen=True, slots=True)
class StepRequest:
    """A training step's request to a gatherer.

    Attributes:
        rollouts: plays the episodes. policy: the agent in these episodes.
        tasks: a group is gathered for each task.
        label: see `Rollouts.play`. Each call for more episodes needs its own label.
        group_size: number of trained episodes in each group.
        progress: see `Rollouts.play`.
        assist: `assist(task, row, group_size)` returns the help for the agent in episode `row` of a group of this task
            (see agentgym.trajectory.PromptAddition), or None. If `assist` is None there is no help.
        more_tasks: `more_tasks(count, further)` draws tasks in addition to the step's; `further` is 1 for the first
            such draw of a step, 2 for the second. The same arguments give the same tasks.
    """

    rollouts: Rollouts
    policy: Policy
    tasks: Sequence[Task]
    label: str
    group_size: int
    progress: float | None = None
    more_tasks: Callable[[int, int], Sequence[Task]] = lambda count, further: ()
    assist: Callable[[Task, int, int], PromptAddition | None] | None = None

    def with_config(self, **changes: Any) -> StepRequest:
        """Return the request with changed options of the rollout config: `with_config(instruction=...)`."""
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
        """Play further episodes for this step under their own label, and return them group after group.

        Args:
            policy: the agent; by default, the step's policy.
            assistance: the help in each episode; by default, the result of `assist`.
            on_trajectory: called with each episode when it ends.
        """
        options: dict[str, Any] = {"label": label, "group_size": group_size, "progress": self.progress, "repeats": True}
        if on_trajectory is not None:
            options["on_trajectory"] = on_trajectory
        if assistance:
            options["assistance"] = assistance
        elif self.assist is not None:
            options["assistance"] = [self.assist(task, row, group_size) for task in tasks for row in range(group_size)]
        return self.rollouts.play(policy or self.policy, tasks, **options)

    def branch(self, forks: Sequence[Fork], group_size: int, label: str) -> list[Trajectory]:
        """Continue recorded episodes from their forks, `group_size` times each, and record the new episodes.

        They come in any order.
        """
        return self.rollouts.branch(self.policy, forks, group_size, label=label, record=True)
