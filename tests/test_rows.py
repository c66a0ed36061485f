"""Trajectories of several rows as data: contexts kept apart, nothing lost in the ledger, in JSON and in exports."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from dataclasses import replace
from io import StringIO

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from scripted_episodes import task
from trajectory_json import trajectory_from_json, trajectory_to_json

from agentgym import Trajectory, Turn
from agentgym.bridges.parquet import row_of_episode
from agentgym.bridges.trl_rows import preference_rows, sft_rows
from agentgym.cli.tables import print_episode
from agentgym.credit import estimator, spread_over_tokens
from agentgym.credit.group import Group
from agentgym.evaluation.report.episode_data import episode_data, image_at, token_data
from agentgym.messages import ImagePart, Message, StopReason
from agentgym.storage.ledger import Ledger
from agentgym.trajectory import Row

PICTURE = ImagePart("iVBORw0KGgo=", "image/png")


def team(executor_turns: int, sample: int = 0) -> Trajectory:
    """A planner hands its first turn's work to an executor, whose turns lie in a row of their own."""
    turns = [Turn(0, Message("assistant", "plan"), (), (), [1, 2], [-0.1, -0.2], [3], role="planner")]
    for index in range(1, executor_turns + 1):
        seen = [101] if index < executor_turns else []
        turns.append(Turn(index, Message("assistant", "do"), (), (), [100], [-0.5], seen, role="executor", row=1))
    end = len(turns)
    turns.append(Turn(end, Message("assistant", "done"), (), (), [4], [-0.3], role="planner", policy="other"))
    return Trajectory(
        f"r/t#{sample}",
        task(),
        sample,
        opening=(Message("user", "What is to be done?"),),
        prompt_ids=[7, 8, 9],
        turns=turns,
        further_rows=[
            Row((Message("user", ("Do this: ", PICTURE)[0]),), [200, 201], ({"type": "function"},), parent=0)
        ],
        outcome={"success": float(sample)},
        stop_reason=StopReason.ANSWERED,
    )


@given(count=st.integers(1, 6))
def test_an_executors_tokens_are_in_no_context_of_the_planner(count):
    planner, executor = team(count).rows()
    assert planner.arrays().ids.tolist() == [7, 8, 9, 1, 2, 3, 4]  # however many turns the executor takes
    assert planner.arrays().turn_index.tolist() == [-1, -1, -1, 0, 0, 0, count + 1]
    assert executor.prompt_ids == [200, 201]
    assert {turn.role for turn in executor.turns} == {"executor"}


@given(count=st.integers(1, 6))
def test_every_token_of_every_row_is_in_one_span_and_gets_the_advantage_of_its_turn(count):
    trajectory = team(count)
    arrays, start = trajectory.arrays(), len(trajectory.prompt_ids)
    assert [len(part) for part in np.split(arrays.ids, arrays.row_starts)] == [0, 7, 2 + 2 * count - 1]
    for turn, (begin, end) in zip(trajectory.turns, trajectory.turn_spans(), strict=True):
        assert arrays.ids[start + begin : start + end].tolist() == turn.token_ids
        assert (arrays.turn_index[start + begin : start + end] == turn.index).all()
    tokens = spread_over_tokens(trajectory, np.arange(1.0, count + 3))
    own = arrays.loss_mask[start:]
    assert tokens[own].tolist() == (arrays.turn_index[start:][own] + 1).tolist()
    assert not tokens[~own].any()


def test_the_ledger_and_json_lose_nothing(tmp_path):
    trajectory = replace(team(3), further_rows=[Row((Message("user", (PICTURE,)),), [5], ({"a": 1},), None)])
    assert trajectory_from_json(json.loads(json.dumps(trajectory_to_json(trajectory)))) == trajectory
    with closing(Ledger(tmp_path / "ledger.sqlite")) as ledger:
        asyncio.run(ledger.finish(trajectory))
        assert ledger.load(trajectory.id) == trajectory


def test_what_was_stored_before_there_were_rows_is_read():
    data = trajectory_to_json(team(1))
    del data["rows"]
    for turn in data["turns"]:
        turn.pop("role", None)
        turn.pop("row", None)
    trajectory = trajectory_from_json(data)
    assert trajectory.rows() == [trajectory]
    assert [(turn.role, turn.row) for turn in trajectory.turns] == [("", 0)] * 3


def test_estimators_count_trajectories_and_not_rows():
    group = Group.from_trajectories([team(1, 0), team(4, 1)])
    assert group.turns.tolist() == [3, 6]
    first, second = estimator("rloo")(group)
    assert (set(first), set(second)) == ({-1.0}, {1.0})


def test_pages_the_console_and_exports_show_rows():
    trajectory = team(2)
    trajectory.further_rows[0].opening = (Message("user", (PICTURE,)),)
    data = episode_data(trajectory)
    assert [(turn["role"], turn["row"]) for turn in data["turns"]] == [
        ("planner", 0),
        ("executor", 1),
        ("executor", 1),
        ("planner", 0),
    ]
    assert data["turns"][3]["policy"] == "other"
    assert data["rows"][0]["parent"] == 0
    assert image_at(trajectory, (4, 1, 0, 0)) is not None
    assert image_at(trajectory, (4, 2, 0, 0)) is None
    kinds = [(span["kind"], span["turn"]) for span in token_data(trajectory)]
    assert kinds[:2] == [("prompt", -1), ("turn", 0)]
    assert kinds[4:] == [("prompt", -1), ("turn", 1), ("observation", 1), ("turn", 2)]
    exported = row_of_episode(trajectory, tokens=True)
    assert exported["roles"] == ["planner", "executor", "executor", "planner"]
    assert exported["row_starts"] == [0, 7]
    assert [message["row"] for message in exported["messages"]] == [0, 0, 0, 1, 1, 1]
    console = Console(file=StringIO(), width=80)
    print_episode(trajectory, console)
    assert "turn 2 executor row 2" in console.file.getvalue()


def test_each_context_is_an_example_of_its_own_to_imitate():
    trajectory = team(2, sample=1)
    trajectory.further_rows[0].opening = (Message("user", "Do this."),)
    trajectory.tools = ({"type": "other"},)
    planner, executor = sft_rows([trajectory])
    assert [message["content"] for message in planner["messages"]] == ["What is to be done?", "plan", "done"]
    assert [message["content"] for message in executor["messages"]] == ["Do this.", "do", "do"]
    assert [json.loads(row["tools"]) for row in (planner, executor)] == [[{"type": "other"}], [{"type": "function"}]]
    assert list(preference_rows([trajectory, replace(trajectory, outcome={"success": 0.0})])) == []
