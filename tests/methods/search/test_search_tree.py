"""What every search leaves and survives: recorded nodes, the same tree by seed and after a break, failures."""

from __future__ import annotations

import asyncio
import random

import pytest
from wanderers import Wanderer, manager_of, rooms, searched

from agentgym import Environment, Reward, RolloutConfig, registry
from agentgym.errors import CreditError, PolicyError, SearchError
from agentgym.methods.search import BestFirst, SearchedEpisode, TreeSearch
from agentgym.policy import Reply, Request
from agentgym.storage.ledger import Ledger
from agentgym.testing import Counter

SEARCH = BestFirst(nodes=60, candidates=6)


def tree_of(each: SearchedEpisode) -> list[tuple[str, float, bool]]:
    return [(node.trajectory.id, node.value, node.ended) for node in each.tree.root.descendants()]


async def test_every_node_is_an_episode_in_the_ledger_that_names_its_parent(tmp_path):
    ledger = Ledger(tmp_path / "ledger.sqlite")
    (each,) = await searched(manager_of(Wanderer(), ledger=ledger), rooms(1), SEARCH)
    for node in each.tree.root.descendants():
        recorded = ledger.load(node.trajectory.id)
        assert recorded.id.startswith("nodes-search/")
        assert recorded.end_state == node.trajectory.end_state
        assert recorded.outcome == {}, "nobody judged it"
        fork = recorded.provenance.branch
        above = node.parent.trajectory
        assert (fork and (fork.trajectory, fork.turn)) == (above and (above.id, node.parent.depth))
    assert len(list(ledger.trajectories("nodes-search/"))) == each.cost.nodes
    assert ledger.load(each.trajectory.id).outcome == each.trajectory.outcome
    ledger.close()


async def test_the_same_seed_grows_the_same_tree_and_another_one_another():
    first, second = [(await searched(manager_of(Wanderer()), rooms(1), SEARCH))[0] for _ in range(2)]
    assert tree_of(first) == tree_of(second)
    assert first.cost == second.cost
    (other,) = await searched(manager_of(Wanderer(), seed=1), rooms(1), SEARCH)
    assert tree_of(other) != tree_of(first)


async def test_episodes_of_one_task_have_trees_of_their_own():
    first, second = await searched(manager_of(Wanderer()), rooms(1), SEARCH, group_size=2)
    ids = [name for each in (first, second) for name, _, _ in tree_of(each)]
    assert len(ids) == len(set(ids))


async def test_a_search_that_was_broken_off_goes_on_and_ends_as_an_unbroken_one(tmp_path):
    tasks, search = rooms(3), TreeSearch(nodes=60, candidates=6)
    unbroken = await searched(manager_of(Wanderer()), tasks, search)
    ledger = Ledger(tmp_path / "ledger.sqlite")
    policy = Stopping(100)
    begun = asyncio.ensure_future(searched(manager_of(policy, ledger=ledger, concurrency=6), tasks, search))
    await policy.stopped.wait()
    begun.cancel()
    await asyncio.gather(begun, return_exceptions=True)
    assert 0 < len(list(ledger.trajectories("nodes-"))) < sum(each.cost.nodes for each in unbroken)
    resumed = Wanderer()
    resumed_episodes = await searched(manager_of(resumed, ledger=ledger), tasks, search)
    assert resumed.requests < sum(each.cost.nodes for each in unbroken)
    assert list(map(tree_of, resumed_episodes)) == list(map(tree_of, unbroken))
    assert [each.cost for each in resumed_episodes] == [each.cost for each in unbroken]
    for each, other in zip(resumed_episodes, unbroken, strict=True):
        assert [turn.message for turn in each.trajectory.turns] == [turn.message for turn in other.trajectory.turns]
    ledger.close()


async def test_states_without_a_key_are_told_apart_by_what_was_said_and_answered():
    class Keyless(registry.load("environments", "agentgym/text-sokoban-v1")):
        state_key = Environment.state_key

    (each,) = await searched(manager_of(Wanderer(), environment=Keyless), rooms(1), SEARCH)
    assert len({node.key for node in each.tree.root.descendants() if node.children}) > 3


class Stopping(Wanderer):
    """Answers so many requests and no more."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most, self.stopped = most, asyncio.Event()

    def identity(self) -> dict[str, object]:
        """Return a Wanderer's: where it stops changes no answer."""
        return Wanderer().identity()

    async def generate(self, request: Request) -> Reply:
        if self.requests >= self._most:
            self.stopped.set()
            await asyncio.Event().wait()
        return await super().generate(request)


class Flaky(Wanderer):
    """A policy whose server fails for a third of the nodes."""

    async def generate(self, request: Request) -> Reply:
        if random.Random(f"{request.episode} {request.turn}").random() < 1 / 3:
            raise PolicyError("the server is gone")
        return await super().generate(request)


async def test_what_the_infrastructure_failed_has_no_value_and_is_counted():
    budgets = {"max_turns": 12}
    (each,) = await searched(manager_of(Flaky(), **budgets), rooms(1), SEARCH)
    nodes = list(each.tree.root.descendants())
    assert each.cost.failed > 5
    assert len(nodes) < each.cost.nodes
    assert all(node.trajectory.valid for node in nodes)


async def test_an_environment_without_a_potential_and_a_reward_of_groups_are_refused():
    class Beside(Reward):
        def group(self, episodes):
            return [{} for _ in episodes]

    counting = RolloutConfig(environment=Counter)
    with pytest.raises(SearchError, match="has none after turn"):
        await searched(manager_of(Wanderer(), environment=counting.environment), rooms(1), SEARCH)
    with pytest.raises(CreditError, match="Beside judges whole groups"):
        await searched(manager_of(Wanderer(), reward=Beside()), rooms(1), SEARCH)
