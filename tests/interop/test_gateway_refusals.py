"""What the gateway cannot do for a program is never booked as its agent's failure."""

from __future__ import annotations

from contextlib import suppress

import httpx
import pytest
from gateway_clients import Program, through_gateway
from scripted_episodes import say

from agentgym.interop.gateway.refusals import MAX_REFUSED
from agentgym.messages import StopReason

pytest.importorskip("starlette")

SCRIPT = [say(("add", {"amount": 2})), say("submit")]
UNKNOWN = {"input": [{"type": "computer_call"}]}


async def refused(http) -> None:
    assert (await http.post("/v1/responses", json=UNKNOWN)).status_code == 400


async def end(http) -> None:
    await http.post("/episode/end", json={})


async def test_an_episode_whose_program_gave_up_after_a_refusal_failed_and_says_why():
    async def client(http, episode):
        program = Program(http, episode)
        await program.answer_calls(await program.ask())
        await refused(http)
        await end(http)

    [trajectory] = await through_gateway(SCRIPT, client)
    assert trajectory.stop_reason is StopReason.INFRA_ERROR
    assert "refused 1 request of the program" in trajectory.error
    assert "computer_call" in trajectory.error
    assert not trajectory.provenance.retries  # another try would be refused too
    assert not trajectory.scored


async def test_a_program_whose_first_request_is_refused_failed_too():
    async def client(http, episode):
        await refused(http)
        await end(http)

    [trajectory] = await through_gateway(SCRIPT, client)
    assert "computer_call" in trajectory.error


async def test_a_part_of_an_api_that_the_gateway_lacks_is_a_refusal():
    async def client(http, episode):
        program = Program(http, episode)
        await program.answer_calls(await program.ask())
        answer = await http.post("/v1/embeddings", json={"input": "x"})
        assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found")
        assert (await http.get("/v1/embeddings")).status_code == 405  # a probe, which asks nothing of the policy
        await end(http)

    [trajectory] = await through_gateway(SCRIPT, client)
    assert "POST /v1/embeddings is not supported. Use one of /v1/chat/completions, " in trajectory.error
    assert not trajectory.scored


async def test_a_program_that_finds_another_way_is_judged():
    async def client(http, episode):
        await refused(http)
        await Program(http, episode).play()

    [trajectory] = await through_gateway(SCRIPT, client)
    assert (trajectory.error, trajectory.success) == (None, 1.0)


async def test_a_refusal_while_a_tool_ends_the_episode_changes_nothing():
    async def client(http, episode):
        program = Program(http, episode)
        await program.answer_calls(await program.ask())
        message = await program.ask()
        await refused(http)
        await program.answer_calls(message)

    [trajectory] = await through_gateway(SCRIPT, client)
    assert (trajectory.error, trajectory.success) == (None, 1.0)


async def test_a_program_that_sends_nothing_but_nonsense_is_stopped():
    async def client(http, episode):
        for _ in range(MAX_REFUSED):
            await refused(http)

    [trajectory] = await through_gateway(SCRIPT, client)
    assert f"refused {MAX_REFUSED} requests" in trajectory.error


async def test_a_wrong_token_and_a_late_request_are_no_refusals():
    async def client(http, episode):
        assert (
            await http.post("/v1/responses", json=UNKNOWN, headers={"authorization": "Bearer x"})
        ).status_code == 401
        await Program(http, episode).play()
        with suppress(httpx.HTTPError):  # the gateway may have closed
            await http.post("/v1/responses", json=UNKNOWN)

    [trajectory] = await through_gateway(SCRIPT, client)
    assert (trajectory.error, trajectory.success) == (None, 1.0)
