"""Tokens of a trajectory: each in exactly one span, arrays and spans in agreement, a recorded example to compare."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_episodes import play, say, task
from trajectory_json import trajectory_from_json, trajectory_to_json

from agentgym import Budgets, Trajectory, Turn
from agentgym.credit import spread_over_tokens
from agentgym.errors import ShapeError
from agentgym.messages import Call, Message, StopReason
from agentgym.testing import CounterWithState, FakeClock

GOLDEN = Path(__file__).parent / "golden" / "counting.json"

lengths = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=6)


def trajectory_of(prompt: int, parts: list[tuple[int, int]]) -> Trajectory:
    """Tokens numbered from 0 on, so that a token's id is its place."""
    at = prompt
    turns = []
    for index, (own, seen) in enumerate(parts):
        ids = list(range(at, at + own + seen))
        turns.append(
            Turn(index, Message("assistant"), token_ids=ids[:own], logprobs=[-1.0] * own, observation_ids=ids[own:])
        )
        at += own + seen
    return Trajectory("r/t#0", task(), prompt_ids=list(range(prompt)), turns=turns, stop_reason=StopReason.ANSWERED)


@given(prompt=st.integers(0, 5), parts=lengths)
def test_every_token_is_in_exactly_one_span_and_in_its_place(prompt, parts):
    trajectory = trajectory_of(prompt, parts)
    arrays = trajectory.arrays()
    total = prompt + sum(own + seen for own, seen in parts)
    np.testing.assert_array_equal(arrays.ids, np.arange(total))
    claimed = np.zeros(total, int)
    claimed[: arrays.prompt_length] += 1
    for (start, end), (_, seen) in zip(trajectory.turn_spans(), parts, strict=True):
        claimed[prompt + start : prompt + end + seen] += 1
    assert (claimed == 1).all()


def test_every_token_has_the_version_that_sampled_it():
    trajectory = trajectory_of(2, [(4, 1), (2, 0)])
    trajectory.turns[0].policy_version, trajectory.turns[0].version_changes = 3, ((1, 4), (3, 6))
    trajectory.turns[1].policy_version = 6
    assert [turn.last_version for turn in trajectory.turns] == [6, 6]
    assert trajectory.arrays().versions.tolist() == [-1, -1, 3, 4, 4, 6, -1, 6, 6]


@given(prompt=st.integers(0, 5), parts=lengths)
def test_arrays_agree_with_spans(prompt, parts):
    trajectory = trajectory_of(prompt, parts)
    arrays = trajectory.arrays()
    own = np.zeros(len(arrays.ids), bool)
    for turn, (start, end) in zip(trajectory.turns, trajectory.turn_spans(), strict=True):
        own[prompt + start : prompt + end] = True
        assert list(arrays.ids[prompt + start : prompt + end]) == turn.token_ids
        assert (arrays.turn_index[prompt + start : prompt + end] == turn.index).all()
    np.testing.assert_array_equal(arrays.loss_mask, own)
    np.testing.assert_array_equal(arrays.logprobs, np.where(own, -1.0, 0.0))
    assert (arrays.turn_index[:prompt] == -1).all()
    assert (np.diff(arrays.turn_index) >= 0).all()
    assert {len(a) for a in (arrays.ids, arrays.loss_mask, arrays.logprobs, arrays.turn_index)} == {len(own)}


@given(parts=lengths, data=st.data())
def test_spreading_gives_each_own_token_its_turns_number_and_observations_0(parts, data):
    trajectory = trajectory_of(3, parts)
    per_turn = data.draw(st.lists(st.floats(0.5, 2), min_size=len(parts), max_size=len(parts)))
    tokens = spread_over_tokens(trajectory, per_turn)
    arrays = trajectory.arrays()
    assert tokens.dtype == np.float64
    assert len(tokens) == len(arrays.ids) - 3
    for index, mask, value in zip(arrays.turn_index[3:], arrays.loss_mask[3:], tokens, strict=True):
        assert value == (per_turn[index] if mask else 0.0)


def test_spreading_by_hand():
    # Prompt of 2; turn 0: 2 own and 1 seen; turn 1: 1 own.
    trajectory = trajectory_of(2, [(2, 1), (1, 0)])
    np.testing.assert_array_equal(spread_over_tokens(trajectory, [0.5, -1.0]), [0.5, 0.5, 0.0, -1.0])


@pytest.mark.parametrize("wrong", [[], [1.0], [[1.0, 2.0]], 1.0])
def test_spreading_the_wrong_number_of_turns_is_refused(wrong):
    with pytest.raises(ShapeError, match="has 2 turns"):
        spread_over_tokens(trajectory_of(1, [(1, 1), (1, 0)]), wrong)


SCRIPT = [
    say(("add", {"amount": 2}), "refuse", ("add", {"amount": "x"}), text="Let me count."),
    Message("assistant", "", (Call("", {}, "call_0", "This is no call."), Call("nothing", {}, "call_1"))),
    Message("assistant", ""),
    say(("slow_add", {"amount": 1})),
    say("submit"),
]


def recorded() -> Trajectory:
    """The golden episode, played anew on a fake clock; tools' own stopwatch and the version are taken out."""
    trajectory = FakeClock().run(
        play(SCRIPT, environment=lambda: CounterWithState(0.5), target=3, budgets=Budgets(max_void_turns=9))
    )
    for turn in trajectory.turns:
        for result in turn.results:
            result.duration_s = 0.0
    trajectory.provenance.agentgym = None
    return trajectory


def golden() -> dict:
    return json.loads(GOLDEN.read_text())


def test_an_episode_is_recorded_exactly_as_it_always_was():
    assert json.loads(json.dumps(trajectory_to_json(recorded()))) == golden()["trajectory"]


def test_the_recorded_episode_has_the_arrays_it_always_had():
    arrays = trajectory_from_json(golden()["trajectory"]).arrays()
    expected = golden()["arrays"]
    assert arrays.ids.tolist() == expected["ids"]
    assert arrays.loss_mask.astype(int).tolist() == expected["loss_mask"]
    assert arrays.turn_index.tolist() == expected["turn_index"]


def write_golden() -> None:
    """`PYTHONPATH=tests/support python tests/test_trajectory.py` after a change that is meant."""
    trajectory = recorded()
    arrays = trajectory.arrays()
    data = {
        "trajectory": trajectory_to_json(trajectory),
        "arrays": {
            "ids": arrays.ids.tolist(),
            "loss_mask": arrays.loss_mask.astype(int).tolist(),
            "turn_index": arrays.turn_index.tolist(),
        },
    }
    GOLDEN.write_text(json.dumps(data) + "\n")


if __name__ == "__main__":
    write_golden()
