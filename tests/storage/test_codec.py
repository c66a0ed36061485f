"""What is packed for the ledger, and written as JSON, reads back equal."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_episodes import task
from trajectory_json import trajectory_from_json, trajectory_to_json

from agentgym import Trajectory, Turn
from agentgym.messages import Call, ImagePart, Message, Result, ResultStatus, StopReason, TextPart
from agentgym.storage.codec import pack_turn, unpack_turn
from agentgym.trajectory import ForkPoint, Provenance, Span, TokenMask

texts = st.text(max_size=20) | st.sampled_from(["\ud800", "\x00", "</tool>", '"', "\u2028"])
floats = st.floats(allow_nan=False)
json_data = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=5,
)
calls = st.builds(Call, texts, st.dictionaries(texts, json_data, max_size=2), texts, st.none() | texts)
content = texts | st.lists(st.builds(TextPart, texts) | st.builds(ImagePart, texts, texts), min_size=1).map(tuple)
results = st.builds(Result, content, st.sampled_from(ResultStatus), texts, texts, st.booleans(), st.booleans(), floats)
messages = st.builds(
    Message, st.sampled_from(["user", "tool"]), content, st.just(()), st.none() | texts, st.none() | texts
)
ids = st.lists(st.integers(0, 2**31 - 1), max_size=5)
spans = st.builds(Span, st.integers(0, 9), st.integers(0, 9), floats, st.none() | st.integers(0, 2), texts)
masks = st.builds(TokenMask, ids.map(tuple), st.booleans())


@st.composite
def turns(draw, index=0):
    calls_of_turn = tuple(draw(st.lists(calls, max_size=2)))
    calls_of_message = draw(st.just(calls_of_turn) | st.lists(calls, max_size=2).map(tuple))
    reasoning, extra = draw(texts), draw(st.dictionaries(texts, json_data, max_size=1))
    own = draw(ids)
    return Turn(
        index,
        Message("assistant", draw(content), calls_of_message, reasoning=reasoning, extra=extra),
        calls_of_turn,
        tuple(draw(st.lists(results, max_size=2))),
        own,
        draw(st.lists(floats, min_size=len(own), max_size=len(own))),
        draw(ids),
        tuple(draw(st.lists(messages, max_size=2))),
        draw(st.integers(0, 9)),
        draw(st.dictionaries(texts, floats, max_size=2)),
        *draw(st.tuples(st.none() | texts, st.none() | floats, st.none() | floats)),
        draw(st.sampled_from(["stop", "length"])),
        *draw(st.tuples(floats, floats)),
        draw(st.dictionaries(texts, floats, max_size=1)),
        version_changes=tuple(draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=2))),
        spans=tuple(draw(st.lists(spans, max_size=1))),
        masks=tuple(draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), masks), max_size=1))),
        policy=draw(texts),
        role=draw(texts),
        row=draw(st.integers(0, 3)),
    )


@given(turn=turns())
@settings(max_examples=60, deadline=None)
def test_every_turn_comes_back_equal_bit_by_bit(turn):
    back = unpack_turn(pack_turn(turn))
    assert back == turn
    assert [x.hex() for x in back.logprobs] == [x.hex() for x in turn.logprobs]


def test_a_value_and_a_potential_of_zero_are_not_none():
    turn = Turn(0, Message("assistant"), value=0.0, potential=0.0)
    assert unpack_turn(pack_turn(turn)) == turn


@given(turn=turns(), weights=st.dictionaries(texts, floats, max_size=2))
@settings(max_examples=30, deadline=None)
def test_json_of_a_trajectory_reads_back_equal(turn, weights):
    trajectory = Trajectory("r/t#0", task(), seed=7, prompt_ids=[1, 2], turns=[turn], weights=weights)
    trajectory.opening, trajectory.outcome = (Message("user", "hi"),), {"success": 0.5}
    trajectory.stop_reason, trajectory.duration_s = StopReason.ANSWERED, 1.5
    trajectory.provenance = Provenance(policy="p", branch=ForkPoint("r/o#0", 1), extra={"own": [1]})
    assert trajectory_from_json(trajectory_to_json(trajectory)) == trajectory


def test_log_probabilities_of_any_size_keep_every_bit():
    values = [-0.1, -1e-300, -math.pi * 1e5, 5e-324, -0.0, float("-inf")]
    turn = Turn(0, Message("assistant"), token_ids=[1] * 6, logprobs=values)
    assert [x.hex() for x in unpack_turn(pack_turn(turn)).logprobs] == [x.hex() for x in values]
