"""The contract of the play loop, pinned where a wrong line would stay unseen.

1. The policy is called only while there is room for a token: a prompt that fills the context ends the episode.
2. `generate_s` is the time of the policy and `tools_s` that of the calls; neither includes the other.
3. What went wrong in closing an environment stays in the record, whichever attempt it was of.
4. A turn that a branch repeats has the versions of the weights that sampled it, token by token.
"""

from __future__ import annotations

import asyncio
import inspect

import pytest
from scripted_episodes import counting, make_manager, play, say

from agentgym import Budgets, ScriptedPolicy
from agentgym.messages import StopReason
from agentgym.methods.attempts import Attempts
from agentgym.rollout import Fork
from agentgym.rollout.play_loop import PlayLoop
from agentgym.testing import ByteRenderer, Counter, CounterWithState, TargetReached


@pytest.mark.parametrize(("room", "reason"), [(0, StopReason.CONTEXT_FULL), (1, StopReason.CONTEXT_FULL)])
async def test_a_policy_is_never_asked_for_no_token(room, reason):
    allowed = []

    class Watched(ScriptedPolicy):
        async def generate(self, request):
            allowed.append(request.sampling.max_tokens)
            return await super().generate(request)

    prompt = len((await play(counting(1), target=1)).prompt_ids)
    policy = Watched(counting(1), ByteRenderer())
    policy.context_tokens = prompt + room
    episode = await play(policy, target=1)
    assert (episode.stop_reason, episode.error, allowed) == (reason, None, [1] * room)


async def test_the_time_of_the_policy_and_that_of_the_tools_are_told_apart(monkeypatch):
    """A clock of its own: the policy takes 1000 s, a call 10 s, and the host as long as it likes."""
    loop = asyncio.get_running_loop()
    real, ahead = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: real() + ahead)

    class Slow(ScriptedPolicy):
        async def generate(self, request):
            nonlocal ahead
            ahead += 1000.0
            return await super().generate(request)

    class SlowCounter(Counter):
        async def call(self, call):
            nonlocal ahead
            ahead += 10.0
            return await super().call(call)

    episode = await play(
        Slow(counting(1), ByteRenderer()), target=1, environment=SlowCounter, budgets=Budgets(time_s=1e9)
    )
    for turn in episode.turns:
        assert 1000 <= turn.generate_s < 1010
        assert 10 <= turn.tools_s < 1000


async def test_what_failed_in_closing_the_first_attempts_environment_is_kept():
    class ClosesOnce(Counter):
        closed = 0

        async def close(self):
            ClosesOnce.closed += 1
            if ClosesOnce.closed == 1:
                raise OSError("busy")

    script = [say("submit"), *counting(2)]
    episode = await play(script, environment=ClosesOnce, attempts=Attempts(feedback="none"))
    assert (ClosesOnce.closed, episode.outcome["fixed"]) == (2, 1.0)
    assert episode.provenance.close_error == "OSError: busy"


async def test_a_branch_has_the_versions_that_its_record_was_sampled_with():
    record = await play(counting(2), environment=CounterWithState)
    record.turns[0].policy_version, record.turns[0].version_changes = 3, ((2, 4), (5, 6))
    policy = ScriptedPolicy([turn.message for turn in record.turns], ByteRenderer())
    manager = make_manager(policy, environment=CounterWithState, reward=TargetReached())
    [branch] = [episode async for episode in manager.branch([Fork(record, 1)], 1)]
    assert branch.error is None
    assert (branch.turns[0].policy_version, branch.turns[0].version_changes) == (3, ((2, 4), (5, 6)))
    assert (
        branch.arrays().versions.tolist()[: len(record.prompt_ids) + 9]
        == (record.arrays().versions.tolist()[: len(record.prompt_ids) + 9])
    )


def test_a_turn_of_the_loop_names_no_feature():
    """Attempts, stop rules, contexts, changing tools and help are the business of hooks and of Contexts."""
    source = inspect.getsource(PlayLoop.play_turn)
    assert len(source.splitlines()) <= 40
    statements = inspect.getsource(PlayLoop.play_turn).partition('"""')[2].partition('"""')[2]
    assert len([line for line in statements.splitlines() if line.strip()]) <= 30
    for name in ("attempt", "hopeless", "context", "role", "assistance", "knowledge", "instruction"):
        assert name not in statements.replace("self._contexts", "")
