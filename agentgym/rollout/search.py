"""The contract of a search over turns, which plays tasks in place of EpisodeManager.run. See methods/search."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, Protocol

from agentgym.rollout.manager import EpisodeManager
from agentgym.task.definition import Task
from agentgym.trajectory.record import Trajectory


class SearchUsage(Protocol):
    """What a search cost in addition to the episode that it chose."""

    def usage(self) -> dict[str, float]:
        """Return the counts by name, as in `Turn.usage`."""
        ...


class SearchResult(Protocol):
    """An episode that a search chose, played to its end and judged like any other."""

    @property
    def trajectory(self) -> Trajectory:
        """The episode. Its `provenance.branch` names the node that it comes from."""
        ...

    @property
    def cost(self) -> SearchUsage:
        """The cost of the search beyond the episode."""
        ...

    def nodes(self) -> Iterable[Trajectory]:
        """Yield the episodes of all nodes of the search tree, each with the value of its end state."""
        ...

    def ends(self, label: str, *, traces: bool = False) -> Iterable[Trajectory]:
        """Yield the complete episodes of the search tree, with the values of their nodes as `Turn.value`.

        Args:
            label: the prefix of their ids.
            traces: whether each turn's text begins with a description of what the search found.
        """
        ...


class EpisodeSearch(Protocol):
    """A search over turns. A factory that is registered under the kind `searches` makes it from options."""

    def check_evaluation(self) -> None:
        """Raise EvaluationError for a search that reads the measured outcome without declaring it."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the options of the search as plain data, for records."""
        ...

    def play(
        self, manager: EpisodeManager, tasks: Sequence[Task], *, label: str, group_size: int = 1, judged: bool = False
    ) -> AsyncGenerator[SearchResult, None]:
        """Search each task `group_size` times, and yield each chosen episode when it is judged.

        Args:
            label: the prefix of the episodes' ids.
            judged: whether the reward also judges the nodes.
        Raises: SearchError; the errors of EpisodeManager.run.
        """
        ...
