"""A stage `collect` that searches: what it keeps for later stages, with values as labels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from staged_runs import IMITATE, pressing, run

from agentgym import Task, Trajectory, Turn
from agentgym.errors import RecipeError
from agentgym.messages import Call, Message, Result, StopReason
from agentgym.methods.preferences.options import PreferSection
from agentgym.methods.preferences.pairs import node_pairs
from agentgym.methods.search import Node
from agentgym.methods.search.ends import with_trace
from agentgym.storage.ledger import Ledger
from agentgym.training.stages.plan import planned_stages
from agentgym.trajectory import EndState

SEARCH = "mcts(nodes=8, candidates=8, value='log_prob')"
COLLECT = {"kind": "collect", "name": "sought", "options": {"tasks": 6, "search": SEARCH}}
SIDES = {"kind": "prefer", "name": "sides", "options": {"steps": 1, "episodes": ["sought"], "pairs": "nodes"}}
TRACED = {"kind": "collect", "name": "traced", "options": {"tasks": 3, "search": SEARCH, "traces": True}}
LEARN = {
    "kind": "imitate",
    "name": "learn",
    "options": {"steps": 2, "episodes": ["sought", "traced"], "select": "weighted"},
}


def recorded(folder: Path, label: str) -> dict[str, tuple]:
    ledger = Ledger(folder / "ledger.sqlite")
    episodes = {t.id: (t.outcome, [turn.value for turn in t.turns], t.prompt_ids) for t in ledger.trajectories(label)}
    ledger.close()
    return episodes


def test_later_stages_learn_from_the_ends_of_the_trees_with_values_and_a_second_run_keeps_the_same(tmp_path):
    folder = tmp_path / "run"
    run(pressing(IMITATE, COLLECT, TRACED, LEARN, SIDES), folder)
    episodes = recorded(folder, "sought")
    assert len(episodes) >= 6
    assert all("success" in outcome for outcome, _, _ in episodes.values())
    ends = {name: values for name, (_, values, _) in episodes.items() if name.startswith("sought-end/")}
    assert ends
    assert all(value < 0 for values in ends.values() for value in values)
    manifest = json.loads(next(folder.glob("stages/learn/episodes.json")).read_text())
    assert {entry["id"] for entry in manifest["episodes"]} <= episodes.keys() | recorded(folder, "traced").keys()
    ledger = Ledger(folder / "ledger.sqlite")
    messages = [turn.message for t in ledger.trajectories("traced-end") for turn in t.turns if turn.value is not None]
    ledger.close()
    assert messages
    assert all(message.text.startswith("What each move would lead to:\n- ") for message in messages)
    nodes = values_of_nodes(folder)
    run(pressing(IMITATE, COLLECT, TRACED, LEARN, SIDES), folder, resume=True)
    assert recorded(folder, "sought") == episodes
    assert values_of_nodes(folder) == nodes
    rows = json.loads(next(folder.glob("stages/sides/episodes.json")).read_text())["rows"]
    assert rows
    for row in rows:
        assert nodes[row["chosen"]] > nodes[row["rejected"]]
        assert row["chosen_turns"] == row["rejected_turns"] == [0, 1], "the last turn of each, which is the only one"


def values_of_nodes(folder: Path) -> dict[str, float]:
    ledger = Ledger(folder / "ledger.sqlite")
    nodes = {t.id: t.end_state.value for t in ledger.trajectories("nodes-searched-sought/")}
    ledger.close()
    return nodes


def test_a_trace_says_what_each_move_would_lead_to_the_best_first_and_makes_the_move_of_the_turn():
    def child(key: int, result: str, value: float) -> Node:
        calls = (Call("turn", {"key": key}),)
        turn = Turn(0, Message("assistant", f"Key {key}.", calls), token_ids=[1, 2], logprobs=[-0.5] * 2)
        turn.calls, turn.results = calls, [Result(result)]
        return Node(Trajectory(f"n{key}", Task("t", "test/press-v1", "?"), turns=[turn]), root, 1, value=value)

    root = Node()
    root.children = [child(0, "It  breaks.", 0.0), child(3, "A click.\n" + "x" * 99, 0.75)]
    chosen = root.children[1].turn
    traced = with_trace(chosen, root)
    assert traced.message.text.splitlines() == [
        "What each move would lead to:",
        "- turn(key=3) -> A click. " + "x" * 71 + " (0.75)",
        "- turn(key=0) -> It breaks. (0.00)",
        "Key 3.",
    ]
    assert (traced.message.calls, traced.token_ids, traced.logprobs) == (chosen.message.calls, [], [])
    assert with_trace(chosen, root.children[1]) == chosen, "from there nothing was tried"
    with pytest.raises(RecipeError, match="traces = true writes down what a search visited"):
        planned_stages(pressing({"kind": "collect", "options": {"traces": True}}))


def node(name: str, tokens: list[list[int]], value: float | None, task: str = "t") -> Trajectory:
    turns = [Turn(k, Message("assistant", "x"), token_ids=ids, observation_ids=[9]) for k, ids in enumerate(tokens)]
    return Trajectory(
        name,
        Task(task, "test/press-v1", "?"),
        prompt_ids=[1],
        turns=turns,
        stop_reason=StopReason.MAX_TURNS,
        end_state=EndState(value=value),
    )


def test_siblings_are_compared_by_their_values_the_best_with_the_worst_and_nodes_with_another_history_never():
    nodes = [
        *(node(f"root-{token}", [[token]], value) for token, value in ((2, 0.25), (3, 1.0), (4, 0.5), (5, -1.0))),
        *(node(f"below-{token}", [[3], [token]], value) for token, value in ((2, 0.0), (4, 1.0))),
        node("same words", [[3], [4]], 0.5),
        node("the worst, again", [[5]], 1.0),
        node("alone", [[4], [2]], 1.0),
        node("no value", [[3], [7]], None),
        node("other task", [[2]], 9.0, task="u"),
    ]
    pairs = node_pairs(nodes, PreferSection(pairs="nodes"))
    assert [(pair.chosen.id, pair.rejected.id, pair.chosen_turns, pair.rejected_turns) for pair in pairs] == [
        ("root-3", "root-5", (0, 1), (0, 1)),
        ("root-4", "root-2", (0, 1), (0, 1)),
        ("below-4", "below-2", (1, 2), (1, 2)),
    ]
    far = node_pairs(nodes, PreferSection(pairs="nodes", margin=0.5))
    assert [pair.chosen.id for pair in far] == ["root-3", "below-4"]


def test_nodes_of_a_stage_that_does_not_search_are_refused_before_the_run():
    plain = {"kind": "collect", "name": "sought", "options": {"tasks": 6, "group_size": 4}}
    with pytest.raises(RecipeError, match=r"'sides' compares the nodes of searches, but 'sought' does not search"):
        planned_stages(pressing(plain, SIDES))


def test_a_search_by_the_oracle_or_in_trees_is_refused():
    for options in ({"policy": "oracle"}, {"trees": True, "group_size": 4}, {"search": "msct"}):
        with pytest.raises(RecipeError, match="search"):
            planned_stages(pressing({"kind": "collect", "options": COLLECT["options"] | options}))
