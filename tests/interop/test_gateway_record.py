"""What the policy gateway records of a program, and what it runs for it, where its own loop would do the same."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import httpx
import pytest
from gateway_clients import Program, through_gateway
from scripted_episodes import counting, play, say
from trajectory_json import trajectory_from_json, trajectory_to_json

from agentgym import Budgets
from agentgym.bridges.trl_rows import sft_rows
from agentgym.environment.sandboxes import EnvironmentSandboxes
from agentgym.messages import ImagePart, Message, ResultStatus, StopReason, TextPart
from agentgym.sandbox import Usage
from agentgym.testing import Counter

pytest.importorskip("starlette")
PICTURE = ImagePart("aGVsbG8=")


async def test_a_program_that_gives_no_tools_is_recorded_with_none():
    async def client(http, episode):
        program = Program(http, {**episode, "tools": []})
        await program.ask()
        await http.post("/episode/end", json={})

    (trajectory,) = await through_gateway([Message("assistant", "Hello.")], client)
    assert trajectory.tools == ()
    assert trajectory_from_json(trajectory_to_json(trajectory)).tools == ()
    (row,) = sft_rows([trajectory], unsuccessful=True)
    assert json.loads(row["tools"]) == []


async def test_calls_of_a_message_beyond_the_budget_are_not_run():
    script = [say(*[("add", {"amount": 1})] * 4)]
    budgets = Budgets(max_calls=3)
    expected = await play(script, budgets=budgets)

    async def client(http, episode):
        program = Program(http, episode)
        await program.answer_calls(await program.ask())
        with suppress(httpx.HTTPError):
            await program.ask()

    (trajectory,) = await through_gateway(script, client, budgets=budgets)
    contents = [[result.content for result in episode.turns[0].results] for episode in (trajectory, expected)]
    assert contents[0] == contents[1]
    assert [result.status for result in trajectory.turns[0].results][2:] == [ResultStatus.OK, ResultStatus.OVER_BUDGET]
    assert trajectory.stop_reason is expected.stop_reason is StopReason.MAX_CALLS


class Pictured(Counter):
    async def reset(self, task, *, seed):
        return [Message("user", (TextPart("Count what you see."), PICTURE))]


async def test_the_images_of_a_task_reach_the_program_and_the_policy():
    read = []

    def policy(messages):
        read.append(messages[0].content)
        return say("submit")

    (trajectory,) = await through_gateway(policy, environment=Pictured)
    assert read == [(TextPart("Count what you see."), PICTURE)]
    assert list(trajectory.opening[0].images) == [PICTURE]


async def test_a_turn_whose_end_is_just_being_judged_is_judged_though_the_episode_ends():
    entered, released = asyncio.Event(), asyncio.Event()

    class Meter(EnvironmentSandboxes):
        """Says what was used only when it is let, from the second reading on."""

        were_opened = True
        readings = 0

        async def usage(self):
            self.readings += 1
            if self.readings > 1 and not released.is_set():
                entered.set()
                await released.wait()
            return Usage()

    class Metered(Counter):
        def __init__(self):
            super().__init__()
            self.sandboxes = Meter()

    async def client(http, episode):
        program = Program(http, episode)
        await program.answer_calls(await program.ask())
        asking = asyncio.create_task(program.ask())
        await entered.wait()
        await http.post("/episode/end", json={})
        released.set()
        with suppress(httpx.HTTPError):
            await asking

    (trajectory,) = await through_gateway(counting(2), client, environment=Metered)
    assert trajectory.turns[0].rewards == {"ok": 1.0}
    assert [result.content for result in trajectory.turns[0].results] == ["1"]
    assert trajectory.stop_reason is StopReason.ANSWERED
