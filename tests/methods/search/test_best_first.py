"""Best-first search on Sokoban: what a random walk reaches when it may go back to the most promising state."""

from __future__ import annotations

import numpy as np
import pytest
from wanderers import Wanderer, manager_of, rooms, searched

from agentgym.errors import SearchError
from agentgym.methods.search import BestFirst, make_search


async def test_rooms_that_the_greedy_wanderer_never_solves_are_all_solved_within_the_budget():
    tasks = rooms(8)
    plain = await manager_of(Wanderer()).collect(tasks)
    assert [t.success for t in plain] == [0] * len(tasks)
    episodes = await searched(manager_of(Wanderer()), tasks, BestFirst(nodes=400, candidates=8))
    assert [each.trajectory.success for each in episodes] == [1] * len(tasks)
    assert max(each.cost.nodes for each in episodes) <= 400
    assert np.mean([each.cost.nodes for each in episodes]) < 150


async def test_no_state_is_grown_twice_and_the_budget_bounds_nodes_and_calls():
    tasks = rooms(3)
    for search in (BestFirst(nodes=50, candidates=8), BestFirst(nodes=50, candidates=8, calls=20)):
        for each in await searched(manager_of(Wanderer()), tasks, search):
            assert each.cost.nodes <= min(50, search.calls or 50)
            assert each.cost.calls == each.cost.nodes
            assert each.cost.tokens == 3 * each.cost.calls
            keys = [node.key for node in each.tree.root.descendants() if node.children]
            assert len(keys) == len(set(keys))


async def test_where_the_budget_ends_the_policy_plays_on_by_itself_from_the_best_node():
    (each,) = await searched(manager_of(Wanderer(), max_turns=6), rooms(1), BestFirst(nodes=16, candidates=8))
    episode = each.trajectory
    assert episode.valid
    assert len(episode.turns) == 6
    assert episode.provenance.branch is not None
    steps = [turn.calls[0].arguments["steps"] for turn in episode.turns[episode.provenance.branch.turn :]]
    assert steps
    assert steps == [["up"]] * len(steps), "greedily, as it would without a search"


async def test_a_policy_without_log_probabilities_is_told_so():
    with pytest.raises(SearchError, match="records none"):
        await searched(manager_of(Wanderer()), rooms(1), BestFirst(value="log_prob"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("best_frist", "Did you mean 'best_first'"),
        ("best_first(node=3)", "has no option 'node'. Did you mean 'nodes'"),
        ("best_first(nodes=0)", "'nodes' of 'best_first' is 0"),
        ("best_first(value='potentil')", "Did you mean 'potential'"),
        ("best_first(value='log_prob(alpha=2.0)')", "'alpha' of 'log_prob' is 2.0"),
    ],
)
def test_a_wrong_name_or_option_is_told_before_anything_is_played(text, message):
    with pytest.raises(SearchError, match="search = ") as raised:
        make_search(text)
    assert message in str(raised.value)
