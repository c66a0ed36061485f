"""Whatever an agent says, its episode ends, is scored, and keeps the promises of the record."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_episodes import play

from agentgym import Budgets, Policy
from agentgym.messages import Call, Message
from agentgym.policy import Reply
from agentgym.testing import ByteRenderer, CounterWithState, FakeClock
from agentgym.testing.byte_renderer import AGENT, END

names = st.sampled_from(["add", "slow_add", "refuse", "submit", "", "rm -rf", "__init__", "close"])
values = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just([[[]]])
arguments = st.dictionaries(st.sampled_from(["amount", "self", "\x00", "b"]), values, max_size=2)
calls = st.builds(Call, names, arguments, st.sampled_from(["call_0", "call_0", ""]), st.none() | st.text(max_size=9))
messages = st.builds(
    Message, st.just("assistant"), st.sampled_from(["", "", "hm", "\ud800"]), st.lists(calls, max_size=4).map(tuple)
)
budgets = st.builds(
    Budgets,
    max_turns=st.integers(1, 6),
    max_turn_tokens=st.integers(1, 30),
    max_episode_tokens=st.none() | st.integers(1, 200),
    max_calls=st.integers(1, 6),
    time_s=st.sampled_from([1.0, 5.0, 600.0]),
    max_void_turns=st.integers(1, 3),
)


class Anything(Policy):
    """Says the given messages over and over, cut to what it is allowed."""

    renderer = ByteRenderer()

    def __init__(self, script, context_tokens):
        self.script, self.context_tokens = script, context_tokens

    async def generate(self, request):
        message = self.script[request.turn % len(self.script)]
        ids = [*b"x" * (len(message.calls) * 5), END]
        allowed = request.sampling.max_tokens
        cut = len(ids) > allowed
        ids = ids[:allowed]
        return Reply(message, ids, [-1.0] * len(ids), "length" if cut else "stop")


@given(
    script=st.lists(messages, min_size=1, max_size=5),
    budgets=budgets,
    context_tokens=st.none() | st.integers(1, 300),
)
@settings(max_examples=150, deadline=None)
def test_every_episode_ends_within_its_budgets_and_on_the_agents_own_token(script, budgets, context_tokens):
    trajectory = FakeClock().run(
        play(Anything(script, context_tokens), environment=lambda: CounterWithState(0.7), budgets=budgets)
    )
    assert trajectory.stop_reason is not None
    assert trajectory.error is None
    assert "success" in trajectory.outcome
    assert len(trajectory.turns) <= budgets.max_turns
    arrays = trajectory.arrays()
    if trajectory.turns:
        assert arrays.loss_mask[-1]
    if budgets.max_episode_tokens is not None:
        assert len(arrays.ids) - arrays.prompt_length <= budgets.max_episode_tokens
    if context_tokens is not None and trajectory.turns:
        assert len(arrays.ids) <= context_tokens
    ran = [r for turn in trajectory.turns for r in turn.results if r.status != "over_budget"]
    assert len(ran) <= budgets.max_calls
    for turn in trajectory.turns:
        assert len(turn.results) == len(turn.calls)
        assert [r.call_id for r in turn.results] == [c.id for c in turn.calls]
        assert turn.policy_version == 0
    for turn in trajectory.turns[:-1]:
        assert turn.observation_ids[-1] == AGENT
        assert turn.token_ids[-1] == END or turn.observation_ids[0] == END  # closed by one or by the other
        assert not (turn.token_ids[-1] == END and turn.observation_ids[0] == END)
