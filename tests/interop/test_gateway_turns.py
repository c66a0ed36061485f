"""Each message that a program asks for is a turn of the loop: hooks look at it as they do at our own turns."""

from __future__ import annotations

from contextlib import suppress

import httpx
import pytest
from gateway_clients import through_gateway, usual
from scripted_episodes import counting, say

from agentgym.interop.gateway.program_loop import ProgramLoop
from agentgym.messages import StopReason
from agentgym.methods.stop_rules import InvalidCalls
from agentgym.rollout import EpisodeHook

pytest.importorskip("starlette")


async def test_one_turn_of_the_loop_is_one_message_of_the_program(monkeypatch):
    """What is added to a turn of the loop, in `play_turn` or by a hook, is added to a turn of a program too."""
    steps, play_turn, seen = [], ProgramLoop.play_turn, []

    async def counted(self):
        await play_turn(self)
        steps.append(len(self._trajectory.turns))

    class Seen(EpisodeHook):
        async def before_turn(self, episode):
            seen.append(len(episode.turns))

    monkeypatch.setattr(ProgramLoop, "play_turn", counted)
    [trajectory] = await through_gateway(counting(3), target=3, hooks=(Seen(),))
    assert len(steps) == len(trajectory.turns) == 4
    assert steps[:2] == [1, 2]
    assert seen == [0, 1, 2, 3]


async def test_a_stop_rule_ends_the_episode_of_a_program():
    async def client(http, episode):
        with suppress(httpx.HTTPStatusError):
            await usual(http, episode)

    script = [say("wish"), say("wish"), *counting(2)]
    [trajectory] = await through_gateway(script, client, stop_if=(InvalidCalls(turns=2),))
    assert (trajectory.stop_reason, len(trajectory.turns)) == (StopReason.HOPELESS, 2)
    assert trajectory.provenance.hopeless == "2 turns in a row without a valid call"
