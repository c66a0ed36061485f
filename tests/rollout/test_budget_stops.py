"""Budgets end an episode: truncated, scored as it stands, and ending on the agent's own token."""

from __future__ import annotations

import asyncio

import pytest
from scripted_episodes import counting, play, say

from agentgym import Budgets, Policy, tool
from agentgym.errors import ContextFull
from agentgym.messages import Call, Message, ResultStatus, StopReason
from agentgym.policy import Reply
from agentgym.storage import Ledger
from agentgym.testing import ByteRenderer, Counter, FakeClock
from agentgym.testing.byte_renderer import END, PROMPT


async def test_turns_are_bounded_and_a_truncated_episode_is_scored():
    trajectory = await play([say("add")] * 10, budgets=Budgets(max_turns=4))
    assert (trajectory.stop_reason, len(trajectory.turns)) == (StopReason.MAX_TURNS, 4)
    assert trajectory.outcome == {"success": 0.0}
    assert trajectory.valid


async def test_answering_in_the_last_turn_is_an_answer():
    trajectory = await play(counting(2), budgets=Budgets(max_turns=3))
    assert trajectory.stop_reason is StopReason.ANSWERED


async def test_calls_beyond_the_budget_are_told_so_and_not_run():
    trajectory = await play([say(*["add"] * 5)], budgets=Budgets(max_calls=3))
    statuses = [result.status for result in trajectory.turns[0].results]
    assert statuses == [ResultStatus.OK] * 3 + [ResultStatus.OVER_BUDGET] * 2
    assert trajectory.stop_reason is StopReason.MAX_CALLS


async def test_the_calls_of_earlier_turns_count():
    trajectory = await play([say("add", "add"), say("add", "add")], budgets=Budgets(max_calls=3))
    statuses = [result.status for turn in trajectory.turns for result in turn.results]
    assert statuses == [ResultStatus.OK] * 3 + [ResultStatus.OVER_BUDGET]


async def test_void_turns_in_a_row_end_the_episode_and_an_understood_call_starts_the_count_anew():
    void = Message("assistant", "", (Call("", {}, "call_0", "nonsense"),))
    trajectory = await play([void, say("add"), void, void, say("add")], budgets=Budgets(max_void_turns=2))
    assert (trajectory.stop_reason, len(trajectory.turns)) == (StopReason.REPEATED_VOID, 4)


class Long(Policy):
    """Writes as much as it may, never ends a turn, and keeps what it was allowed."""

    renderer = ByteRenderer()

    def __init__(self, context_tokens=None):
        self.context_tokens, self.allowed = context_tokens, []

    async def generate(self, request):
        self.allowed.append(request.sampling.max_tokens)
        ids = list(b"x" * request.sampling.max_tokens)
        return Reply(Message("assistant", "x" * len(ids)), ids, [-0.5] * len(ids), "length")


async def test_a_request_may_use_no_more_tokens_than_the_episode_has_left():
    policy = Long()
    trajectory = await play(policy, budgets=Budgets(max_turn_tokens=100, max_episode_tokens=250))
    # 100 tokens, then an end of turn the agent did not write, a reply of 91 bytes or so, and what is left of 250.
    seen = len(trajectory.turns[0].observation_ids)
    assert policy.allowed == [100, 250 - 100 - seen]
    assert trajectory.stop_reason is StopReason.MAX_TOKENS
    assert sum(end - start for start, end in trajectory.turn_spans()) + seen == 250


async def test_a_message_cut_by_its_own_limit_is_told_so_and_its_turn_is_closed_outside_the_loss():
    policy = Long()
    trajectory = await play(policy, budgets=Budgets(max_turn_tokens=10, max_void_turns=2))
    first = trajectory.turns[0]
    assert "cut off at 10 tokens" in first.replies[0].text
    assert first.observation_ids[:2] == [END, PROMPT]
    assert trajectory.arrays().loss_mask.sum() == 20  # two turns of 10
    assert trajectory.stop_reason is StopReason.REPEATED_VOID


async def test_a_full_context_truncates_and_never_crashes():
    policy = Long(context_tokens=40)
    trajectory = await play(policy)
    assert policy.allowed == [40 - len(trajectory.prompt_ids)]
    assert trajectory.stop_reason is StopReason.CONTEXT_FULL
    assert len(trajectory.arrays().ids) == 40


async def test_a_prompt_that_does_not_fit_is_context_full_without_a_turn():
    trajectory = await play(Long(context_tokens=5))
    assert (trajectory.stop_reason, trajectory.turns) == (StopReason.CONTEXT_FULL, [])
    assert not trajectory.valid


async def test_a_first_request_that_does_not_fit_is_recorded_and_neither_retried_nor_trained_on(tmp_path):
    """No retry makes the prompt shorter, so it is no failure of the infrastructure; without a turn it is not valid."""

    class Full(Policy):
        requests = 0

        async def generate(self, request):
            self.requests += 1
            raise ContextFull("9000 tokens do not fit 8192")

    policy, ledger = Full(), Ledger(tmp_path / "ledger.sqlite")
    trajectory = await play(policy, ledger=ledger)
    assert (trajectory.stop_reason, trajectory.turns, trajectory.error) == (StopReason.CONTEXT_FULL, [], None)
    assert (policy.requests, trajectory.valid, trajectory.provenance.retries) == (1, False, [])
    assert ledger.load(trajectory.id) == trajectory
    ledger.close()


async def test_an_observation_that_does_not_fit_ends_the_episode_before_it_is_recorded():
    class Flood(Counter):
        @tool(inline=True)
        def flood(self) -> str:
            """Say a lot."""
            return "x" * 1000

    trajectory = await play([say("flood"), say("submit")], environment=Flood, context_tokens=200)
    assert trajectory.stop_reason is StopReason.CONTEXT_FULL
    assert trajectory.turns[-1].observation_ids == []
    assert len(trajectory.turns) == 1


async def test_a_server_that_says_the_context_is_full_truncates_the_episode():
    class Full(Policy):
        async def generate(self, request):
            if request.turn == 1:
                raise ContextFull("8193 tokens do not fit 8192")
            return Reply(say("add"))

    trajectory = await play(Full())
    assert (trajectory.stop_reason, len(trajectory.turns)) == (StopReason.CONTEXT_FULL, 1)
    assert trajectory.outcome == {"success": 0.0}


async def test_tokens_are_counted_by_the_model_where_there_is_no_renderer():
    class Api(Policy):
        async def generate(self, request):
            return Reply(say("add"), prompt_tokens=100 + 30 * request.turn, completion_tokens=10)

    # After turn k: 30 k tokens beyond the first prompt, and 10 of the turn itself: 10, 40, 70, 100.
    trajectory = await play(Api(), budgets=Budgets(max_episode_tokens=100))
    assert (trajectory.stop_reason, len(trajectory.turns)) == (StopReason.MAX_TOKENS, 4)
    assert trajectory.turns[0].usage == {"prompt_tokens": 100, "completion_tokens": 10}


async def test_a_reply_without_counts_keeps_the_tokens_counted_so_far():
    left = []

    class Api(Policy):
        async def generate(self, request):
            left.append(request.sampling.max_tokens)
            counts = {} if request.turn % 2 else {"prompt_tokens": 100 + 30 * request.turn, "completion_tokens": 10}
            return Reply(say("add"), **counts)

    # Counted after turns 0, 2 and 4: 10, 70, 130. What turns 1 and 3 add is unknown.
    trajectory = await play(Api(), budgets=Budgets(max_episode_tokens=100))
    assert (trajectory.stop_reason, left) == (StopReason.MAX_TOKENS, [100, 90, 90, 30, 30])


def test_time_runs_out_between_turns_and_the_episode_is_scored():
    class Slow(Counter):
        def __init__(self):
            super().__init__(latency_s=10.0)

    clock = FakeClock()
    trajectory = clock.run(play([say("slow_add")] * 20, environment=Slow, budgets=Budgets(time_s=35, max_turns=20)))
    assert trajectory.stop_reason is StopReason.TIME
    assert clock.now == pytest.approx(35)
    assert [turn.results[0].status for turn in trajectory.turns[:3]] == [ResultStatus.OK] * 3
    assert trajectory.turns[3].results[0].status is ResultStatus.OVER_BUDGET  # said, but never finished
    assert trajectory.outcome == {"success": 0.0}
    assert trajectory.arrays().loss_mask[-1]


class Thinker(Policy):
    """Thinks for 100 s before each message, which it says on and on."""

    renderer = ByteRenderer()

    def __init__(self, message, thinks_s=100.0):
        self.message, self.thinks_s = message, thinks_s

    async def generate(self, request):
        await asyncio.sleep(self.thinks_s)
        ids = self.renderer.encode(self.message)
        return Reply(self.message, ids, [0.0] * len(ids))


def test_the_clock_of_an_episode_stands_still_while_its_policy_samples():
    clock = FakeClock()
    trajectory = clock.run(play(Thinker(say("add")), budgets=Budgets(time_s=50, max_turns=4)))
    assert (trajectory.stop_reason, len(trajectory.turns)) == (StopReason.MAX_TURNS, 4)
    assert clock.now == pytest.approx(400)


def test_between_the_messages_of_a_slow_policy_the_clock_goes_on():
    clock = FakeClock()
    budgets = Budgets(time_s=25, max_turns=20)
    trajectory = clock.run(play(Thinker(say("slow_add")), environment=lambda: Counter(latency_s=10.0), budgets=budgets))
    assert (trajectory.stop_reason, len(trajectory.turns)) == (StopReason.TIME, 3)
    assert clock.now == pytest.approx(3 * 100 + 25)
    assert trajectory.turns[-1].results[0].status is ResultStatus.OVER_BUDGET
    assert trajectory.arrays().loss_mask[-1]


def test_a_policy_that_hangs_for_ever_is_asked_again_and_then_the_episode_has_failed():
    """It says nothing about the agent: what hangs is its server."""
    clock = FakeClock()
    hanging = Thinker(say("add"), thinks_s=1e9)
    trajectory = clock.run(play(hanging, budgets=Budgets(time_s=50, reply_s=700, infra_retries=1)))
    assert (trajectory.stop_reason, trajectory.outcome) == (StopReason.INFRA_ERROR, {})
    assert trajectory.error.startswith("PolicyError: 'policy' gave no reply within 700 s. If it hangs, restart it")
    assert trajectory.provenance.retries[0].startswith("PolicyError: 'policy' gave no reply within 700 s.")
    assert clock.now == pytest.approx(2 * 700)
    assert Budgets().reply_s == 3600, "much longer than any message of a slow model"
