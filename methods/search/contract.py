"""The interface of every search over turns, and of the values of nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from functools import cached_property
from typing import Annotated, Any, Protocol, runtime_checkable

from pydantic import Field

from agentgym import EpisodeManager, EvaluationError, SearchError, Task
from agentgym.credit import load_named_part
from agentgym.options import Count, Section

from .searched import SearchedEpisode
from .tree import Node, SearchTree


@runtime_checkable
class SearchValue(Protocol):
    """Values the nodes of a search. Registered under the kind `search_values`.

    Attributes:
        reads_outcome: whether the value asks the reward that judges the episode, or plays to the end, where that reward
            judges. Such a
            value knows the truth: an evaluation refuses it unless the search has `oracle=True`.
    """

    reads_outcome: bool

    async def __call__(self, tree: SearchTree, nodes: Sequence[Node]) -> list[float | None]:
        """Return the values of a tree's nodes, higher is better; None if the infrastructure failed.

        Raises: SearchError if the environment or the policy does not provide what the value needs.
        """
        ...


class TurnSearch(Section):
    """Base of the searches: a subclass chooses which node is grown next, and which one is finally taken."""

    nodes: Count = 64
    """How many nodes the tree of one episode may have."""
    calls: Count | None = None
    """How many messages the policy may write for the tree, rollouts included, checked before a node is grown. By
    default the nodes alone bound them."""
    candidates: Count = 4
    """How many moves of the policy are tried from a node. The first is sampled as the policy plays by itself, the
    others at `temperature`."""
    temperature: Annotated[float, Field(ge=0)] = 1.0
    """The sampling temperature of the other candidates."""
    value: Any = "potential"
    """How good a node is: `potential`, `log_prob`, `rollouts`, `reward(name='...')` or another registered value with
    its options.

    In Python also a SearchValue."""
    oracle: bool = False
    """Allow a value that reads the outcome in an evaluation, which then says so."""

    async def choose(self, tree: SearchTree) -> Node:
        """Grow the tree within its budget and return the node where the episode continues. Raises: as `expand`."""
        raise NotImplementedError

    @cached_property
    def _valued_by(self) -> SearchValue:
        return value_named(self.value) if isinstance(self.value, str) else self.value

    async def value_of(self, tree: SearchTree, nodes: Sequence[Node]) -> list[float | None]:
        """Return the values of nodes, higher is better; None if the infrastructure failed."""
        return await self._valued_by(tree, nodes) if nodes else []

    @property
    def reads_outcome(self) -> bool:
        """Return whether the value reads the measured outcome."""
        return self._valued_by.reads_outcome

    def play(
        self, manager: EpisodeManager, tasks: Sequence[Task], *, label: str, group_size: int = 1, judged: bool = False
    ) -> AsyncGenerator[SearchedEpisode, None]:
        """Play tasks as `search_episodes` does."""
        return search_episodes(manager, tasks, self, label=label, group_size=group_size, judged=judged)

    def check_evaluation(self) -> None:
        """Raise EvaluationError if the value reads the outcome without declaring `oracle`."""
        if self.reads_outcome and not self.oracle:
            raise EvaluationError(
                f"The search values nodes by {self.value!r}, which reads the very outcome that the evaluation "
                "measures, so the measured success would come from the judge. Choose another value, such as "
                "'potential' or 'log_prob', or set oracle=True: the record then says that the value came from an "
                "oracle."
            )

    def describe(self) -> dict[str, Any]:
        """Return the options as plain data for records, with the name of the value and whether it is an oracle."""
        value = self.value if isinstance(self.value, str) else type(self.value).__name__
        return {"search": type(self).__name__, **self.model_dump(exclude={"value", "oracle"}), "value": value} | {
            "oracle_value": self.reads_outcome
        }


async def search_episodes(
    manager: EpisodeManager,
    tasks: Sequence[Task],
    search: TurnSearch,
    *,
    label: str,
    group_size: int = 1,
    judged: bool = False,
) -> AsyncGenerator[SearchedEpisode, None]:
    """Search each task `group_size` times and yield each episode when it is judged.

    As many searches run at once as the manager's `concurrency` allows. With a ledger, an interrupted search continues
    with the nodes that it had grown; their checkpoints are lost, so their calls are repeated.

    Args:
        label: the label of the episodes. judged: also ask rewards at the nodes; a value that reads the outcome implies
            it.
    Raises: SearchError for an engine outside this process, or nodes that cannot be valued; CreditError for a reward
        that judges groups; errors of EpisodeManager.run.
    """
    engine = manager.config.engine
    if engine is not None and engine.name != "local":
        raise SearchError(
            f"A search always plays in this process, so engine = {engine.name!r} cannot be used. Leave it out."
        )
    manager.claim(label)
    room = asyncio.Semaphore(max(1, manager.config.concurrency // search.candidates))

    async def searched(task: Task, sample: int) -> SearchedEpisode:
        async with room:
            tree = SearchTree(manager, task, sample, search, label=label, judged=judged or search.reads_outcome)
            node = await search.choose(tree)
            return SearchedEpisode(await tree.finish(node), tree.cost, tree)

    running = [asyncio.ensure_future(searched(task, sample)) for task in tasks for sample in range(group_size)]
    try:
        for episode in asyncio.as_completed(running):
            yield await episode
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)


def value_named(text: str) -> SearchValue:
    """Return the value that a text names. Raises: UnknownNameError; CreditError for wrong options."""
    value: SearchValue = load_named_part("search_values", text)()
    return value
