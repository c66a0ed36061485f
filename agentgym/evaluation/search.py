"""What a search over the turns of an episode is: it plays tasks in place of an EpisodeManager. See methods/search."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, Protocol

from agentgym.credit.named_parts import load_named_part
from agentgym.errors import CreditError, SearchError, UnknownNameError
from agentgym.rollout import EpisodeManager
from agentgym.task import Task
from agentgym.trajectory import Trajectory


class SearchUsage(Protocol):
    """What a search took beside the episode that came of it."""

    def usage(self) -> dict[str, float]:
        """Return the counts by name, as in `Turn.usage`."""
        ...


class SearchResult(Protocol):
    """An episode that a search chose, played to its end and judged as any other."""

    @property
    def trajectory(self) -> Trajectory:
        """The episode. Its `provenance.branch` names the node that it comes from."""
        ...

    @property
    def cost(self) -> SearchUsage:
        """What the search took beside it."""
        ...

    def nodes(self) -> Iterable[Trajectory]:
        """Yield the episodes of all nodes of its tree, each with its value in its end state."""
        ...

    def ends(self, label: str, *, traces: bool = False) -> Iterable[Trajectory]:
        """Yield the whole episodes of its tree, with the values of their nodes as `Turn.value`.

        Args:
            label: begins their ids.
            traces: let the turns say first what the search found.
        """
        ...


class EpisodeSearch(Protocol):
    """What is registered in the kind `searches` makes one when called with its options."""

    def check_evaluation(self) -> None:
        """Raise EvaluationError for a search that reads the measured outcome and does not say so."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return its options as plain data, for records."""
        ...

    def play(
        self, manager: EpisodeManager, tasks: Sequence[Task], *, label: str, group_size: int = 1, judged: bool = False
    ) -> AsyncGenerator[SearchResult, None]:
        """Search each task `group_size` times and yield each episode when it is judged.

        Args:
            label: begins the ids of the episodes.
            judged: ask rewards at the nodes too.
        Raises: SearchError; as EpisodeManager.run.
        """
        ...


def make_search(text: str) -> EpisodeSearch:
    """Make the search that a line of text names, such as `best_first(nodes=200, value='log_prob')`.

    Raises: SearchError for a name or option that there is not, naming what there is.
    """
    try:
        search: EpisodeSearch = load_named_part("searches", text)()
        search.describe()  # loads what it names, so that a wrong name is an error before anything is played
    except (CreditError, UnknownNameError) as error:
        raise SearchError(f"search = {text!r}: {error}") from error
    return search
