"""Beam search: a beam of one is the policy's own play, a wider one finds what that misses."""

from __future__ import annotations

from wanderers import Wanderer, manager_of, rooms, searched

from agentgym.methods.search import BeamSearch


async def test_a_beam_of_one_plays_what_the_policy_plays_greedily_by_itself():
    tasks = rooms(3)
    plain = await manager_of(Wanderer(), max_turns=6).collect(tasks)
    episodes = await searched(manager_of(Wanderer(), max_turns=6), tasks, BeamSearch(width=1, candidates=1))
    for episode, each in zip(plain, episodes, strict=True):
        assert [turn.message for turn in each.trajectory.turns] == [turn.message for turn in episode.turns]
        assert each.trajectory.outcome == episode.outcome


async def test_a_beam_keeps_so_many_nodes_of_each_turn_and_solves_what_the_greedy_wanderer_does_not():
    tasks = rooms(4)
    episodes = await searched(manager_of(Wanderer()), tasks, BeamSearch(nodes=400, width=5, candidates=6))
    assert sum(each.trajectory.success for each in episodes) >= 3
    for each in episodes:
        grown = [node.depth for node in each.tree.root.descendants() if node.children]
        assert max(grown.count(depth) for depth in set(grown)) <= 5
