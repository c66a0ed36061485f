"""Searches the episodes of many tasks at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from agentgym.errors import SearchError
from agentgym.rollout import EpisodeManager
from agentgym.rollout.engine import LocalEngine
from agentgym.search.contract import TurnSearch
from agentgym.search.tree import SearchTree, TreeCost
from agentgym.task import Task
from agentgym.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class SearchedEpisode:
    """An episode that a search chose, played to its end and judged as any other.

    Attributes:
        trajectory: the episode. Its `provenance.branch` names the node that it comes from.
        cost: what the search took beside it.
        tree: all that was grown.
    """

    trajectory: Trajectory
    cost: TreeCost
    tree: SearchTree


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

    As many searches are under way as keep the manager's `concurrency` of episodes. With a ledger, a search that was
    broken off finds the nodes that it had grown and goes on. Their checkpoints are gone, so their calls are repeated.

    Args:
        label: of the episodes. judged: ask rewards at the nodes too; a value that reads the outcome does so anyway.
    Raises: SearchError for another engine than this process, and where nodes cannot be valued; CreditError for a reward
        that judges groups; as EpisodeManager.run.
    """
    engine = manager.config.engine
    if engine is not None and engine.name != LocalEngine.name:
        raise SearchError(f"A search plays in this process, and not on engine = {engine.name!r}: leave that out.")
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
