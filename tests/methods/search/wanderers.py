"""Policies, tasks and managers of the tests of searches."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from agentgym import Budgets, EpisodeManager, Policy, RolloutConfig, Task, registry
from agentgym.messages import Call, Message
from agentgym.methods.search import SearchedEpisode, TurnSearch, search_episodes
from agentgym.policy import Reply, Request
from agentgym.storage.ledger import Ledger

DIRECTIONS = ("up", "down", "left", "right")


class Wanderer(Policy):
    """Takes a step anywhere, drawn from the request's seed; always up where it is greedy."""

    name = "wanderer"

    def __init__(self) -> None:
        self.requests = 0

    async def generate(self, request: Request) -> Reply:
        self.requests += 1
        greedy = request.sampling.temperature == 0
        direction = "up" if greedy else random.Random(request.sampling.seed).choice(DIRECTIONS)
        message = Message("assistant", "", (Call("move", {"steps": [direction]}),))
        return Reply(message, completion_tokens=3)


def rooms(count: int, level: int = 0) -> list[Task]:
    """Sokoban tasks."""
    environment: Any = registry.load("environments", "agentgym/text-sokoban-v1")
    return [environment.generate(seed, level) for seed in range(count)]


def manager_of(
    policy: Policy, *, ledger: Ledger | None = None, temperature: float = 0.0, max_turns: int = 24, **options: Any
) -> EpisodeManager:
    config = RolloutConfig(temperature=temperature, budgets=Budgets(max_turns=max_turns), **options)
    return EpisodeManager(policy, config, ledger=ledger)


async def searched(
    manager: EpisodeManager, tasks: Sequence[Task], search: TurnSearch, *, label: str = "search", group_size: int = 1
) -> list[SearchedEpisode]:
    """By task and sample."""
    episodes = [
        episode async for episode in search_episodes(manager, tasks, search, label=label, group_size=group_size)
    ]
    order = {task.id: position for position, task in enumerate(tasks)}
    return sorted(episodes, key=lambda each: (order[each.trajectory.task.id], each.trajectory.sample))
