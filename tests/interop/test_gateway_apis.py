"""The four APIs of the gateway say the same: one conversation over each is one episode, streamed or not."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import httpx
import pytest
from gateway_clients import Program, through_gateway
from scripted_episodes import play, say

from agentgym import Budgets, ScriptedPolicy
from agentgym.errors import PolicyError
from agentgym.storage.ledger import Ledger
from agentgym.testing import ByteRenderer

pytest.importorskip("starlette")

SCRIPT = [say(("add", {"amount": 2}), text="I add."), say("submit")]
SYSTEM = "You count."


def events(text: str) -> list[dict[str, Any]]:
    """The data of server-sent events."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


async def post(http: httpx.AsyncClient, path: str, body: dict[str, Any]) -> httpx.Response:
    answer = await http.post(path, json=body)
    answer.raise_for_status()
    return answer


def chat_completions(stream: bool, usage: bool = False):
    async def play(http, episode):
        program = Program(http, episode)
        program.messages.insert(0, {"role": "developer", "content": SYSTEM})
        for _ in range(2):
            body = {"model": "m", "messages": program.messages, "tools": episode["tools"], "stream": stream}
            body |= {"stream_options": {"include_usage": True}} if usage else {}
            answer = await post(http, "/v1/chat/completions", body)
            if not stream:
                message = answer.json()["choices"][0]["message"]
            else:
                parts = events(answer.text)
                message = parts[0]["choices"][0]["delta"]
                assert parts[1]["choices"][0]["finish_reason"] == "tool_calls"
                assert [part["choices"] for part in parts[2:]] == ([[]] if usage else [])  # nobody asked for others
                assert not usage or (parts[0]["usage"] is None and parts[2]["usage"]["total_tokens"] > 0)
            program.messages.append(message)
            await program.answer_calls(message)

    return play


def responses(stream: bool):
    async def play(http, episode):
        tools = [{"type": "function", **tool["function"]} for tool in episode["tools"]]
        items = [{"role": "user", "content": [{"type": "input_text", "text": episode["messages"][0]["content"]}]}]
        for _ in range(2):
            body = {"model": "m", "instructions": SYSTEM, "input": items, "tools": tools, "stream": stream}
            answer = await post(http, "/v1/responses", body)
            parts = events(answer.text) if stream else []
            output = (parts[-1]["response"] if stream else answer.json())["output"]
            if stream:
                assert [part["item"] for part in parts if part["type"] == "response.output_item.done"] == output
                assert [part["sequence_number"] for part in parts] == list(range(len(parts)))
            items += output
            for item in output:
                if item["type"] == "function_call":
                    arguments = json.loads(item["arguments"])
                    result = (await http.post(f"/episode/tools/{item['name']}", json=arguments)).json()
                    done = {"type": "function_call_output", "call_id": item["call_id"], "output": result["text"]}
                    items.append(done)

    return play


def anthropic(stream: bool):
    async def play(http, episode):
        token = http.headers.pop("authorization").removeprefix("Bearer ")
        http.headers["x-api-key"] = token
        functions = [tool["function"] for tool in episode["tools"]]
        tools = [
            {"name": f["name"], "description": f["description"], "input_schema": f["parameters"]} for f in functions
        ]
        messages: list[dict[str, Any]] = [dict(episode["messages"][0])]
        for _ in range(2):
            body = {"model": "m", "max_tokens": 500, "system": SYSTEM, "messages": messages, "tools": tools}
            answer = await post(http, "/v1/messages", {**body, "stream": stream})
            content = _blocks(events(answer.text)) if stream else answer.json()["content"]
            messages.append({"role": "assistant", "content": content})
            results = []
            for block in content:
                if block["type"] == "tool_use":
                    result = (await http.post(f"/episode/tools/{block['name']}", json=block["input"])).json()
                    done = {"type": "tool_result", "tool_use_id": block["id"], "content": result["content"]}
                    results.append(done)
            messages.append({"role": "user", "content": results})

    return play


def google(method: str):
    async def play(http, episode):
        token = http.headers.pop("authorization").removeprefix("Bearer ")
        http.headers["x-goog-api-key"] = token
        functions = [tool["function"] for tool in episode["tools"]]
        declared = [
            {"name": f["name"], "description": f["description"], "parametersJsonSchema": f["parameters"]}
            for f in functions
        ]
        contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": episode["messages"][0]["content"]}]}]
        for _ in range(2):
            body = {
                "systemInstruction": {"parts": [{"text": SYSTEM}]},
                "contents": contents,
                "tools": [{"functionDeclarations": declared}],
            }
            answer = await post(http, f"/v1beta/models/m:{method}", body)
            [read] = events(answer.text) if "alt=sse" in method else _list(answer.json())
            [candidate] = read["candidates"]
            assert (candidate["finishReason"], read["modelVersion"]) == ("STOP", "m")
            contents.append(candidate["content"])
            results = []
            for part in candidate["content"]["parts"]:
                if call := part.get("functionCall"):
                    result = (await http.post(f"/episode/tools/{call['name']}", json=call["args"])).json()
                    done = {"id": call["id"], "name": call["name"], "response": {"output": result["text"]}}
                    results.append({"functionResponse": done})
            contents.append({"role": "user", "parts": results})

    return play


def _list(given: Any) -> list[Any]:
    return given if isinstance(given, list) else [given]


GOOGLE = [google(method) for method in ("generateContent", "streamGenerateContent?alt=sse", "streamGenerateContent")]


def _blocks(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The content of a message from its events, as their SDK puts it together."""
    blocks: list[dict[str, Any]] = []
    for part in parts:
        if part["type"] == "content_block_start":
            blocks.append(dict(part["content_block"]))
        elif part["type"] == "content_block_delta":
            delta = part["delta"]
            if delta["type"] in ("text_delta", "thinking_delta"):
                field = delta["type"].removesuffix("_delta")
                blocks[-1][field] += delta[field]
            else:
                blocks[-1]["input"] = json.loads(delta["partial_json"])
    assert [part["type"] for part in parts[-2:]] == ["message_delta", "message_stop"]
    assert parts[-2]["delta"]["stop_reason"] == "tool_use"
    return blocks


async def test_one_conversation_over_every_api_is_one_episode():
    clients = [make(stream) for make in (chat_completions, responses, anthropic) for stream in (False, True)]
    clients += [chat_completions(True, usage=True), *GOOGLE]
    trajectories = await through_gateway(SCRIPT, clients)
    first = trajectories[0]
    assert [message.text for message in first.opening] == [SYSTEM, "Count to 2."]
    for trajectory in trajectories:
        assert trajectory.outcome == {"success": 1.0}
        assert not trajectory.further_rows
        assert trajectory.arrays().ids.tolist() == first.arrays().ids.tolist()
        assert [turn.message for turn in trajectory.turns] == [turn.message for turn in first.turns]


async def test_a_program_is_given_thoughts_apart_from_speech_and_need_not_send_them_back():
    clients = [make(stream) for make in (chat_completions, responses, anthropic) for stream in (False, True)] + GOOGLE
    seen: list[str] = []

    async def forgetful(http, episode):
        program = Program(http, episode)
        for _ in range(2):
            message = await program.ask()
            seen.append(f"{message['content']}|{message.pop('reasoning_content', '')}")
            await program.answer_calls(message)

    thoughtful = [replace(SCRIPT[0], content="<think>Two.</think>I add."), replace(SCRIPT[1], reasoning="Done.")]
    trajectories = await through_gateway(thoughtful, [*clients, forgetful])
    assert seen == ["I add.|Two.", "|Done."]
    for trajectory in trajectories:
        assert not trajectory.further_rows
        assert [turn.message.thought for turn in trajectory.turns] == ["Two.", "Done."]
        assert trajectory.turns[0].message.content == "<think>Two.</think>I add."


async def test_half_of_a_surrogate_pair_is_the_agents_mistake_as_in_this_process(tmp_path):
    """Over each API: the call fails, the program sends its history back, and the episode goes on."""
    script = [say(("add", {"amount": "2\ud800"}), text="I \udc00 add."), say(("add", {"amount": 2}), "submit")]
    direct = await play(script)
    clients = [make(stream) for make in (chat_completions, responses, anthropic) for stream in (False, True)]
    ledger = Ledger(tmp_path / "ledger.sqlite")
    for trajectory in await through_gateway(script, clients, ledger=ledger):
        assert not trajectory.further_rows
        assert (trajectory.error, trajectory.outcome) == (None, {"success": 1.0})
        assert [turn.message for turn in trajectory.turns] == [
            replace(
                turn.message,
                calls=tuple(replace(call, id=f"call_{turn.index}_{k}") for k, call in enumerate(turn.calls)),
            )
            for turn in direct.turns
        ]
        for ours, theirs in zip(direct.turns, trajectory.turns, strict=True):
            assert [result.content for result in theirs.results] == [result.content for result in ours.results]
        assert ledger.load(trajectory.id) == trajectory
    ledger.close()


async def test_what_a_program_cut_in_two_is_read_as_no_character_and_what_is_no_unicode_is_refused():
    """Programs in JavaScript cut a text between the halves of a character."""

    async def client(http, episode):
        program = Program(http, episode)
        program.messages[0] = {"role": "user", "content": "Count \ud83d"}
        tools = [{"type": "function", "function": {"name": "f", "description": "\ud800", "parameters": {}}}]
        history = [
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": r'{"x": "\ud800"}'}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "\udc00"},
        ]
        program.messages += history
        raw = b'{"messages": [{"role": "user", "content": "\xed\xa0\x80"}]}'
        assert (await http.post("/v1/chat/completions", content=raw)).status_code == 400
        await program.ask(tools=tools)
        called = await http.post("/mcp", json={"jsonrpc": "2.0", "id": "\ud800", "method": "\udc00"})
        assert called.json()["id"] == "\ud800"
        await http.post("/episode/end", json={})

    [trajectory] = await through_gateway([say(text="Hm.")], client)
    assert trajectory.error is None
    assert [message.text for message in trajectory.opening] == ["Count \ufffd", "", "\ufffd"]
    assert trajectory.opening[1].calls[0].arguments == {"x": "\ufffd"}
    assert trajectory.tools[0]["function"]["description"] == "\ufffd"


async def test_an_mcp_client_calls_the_tools_of_the_episode_that_its_token_names():
    async def play(http, episode):
        async def mcp(method: str, **params: Any) -> dict[str, Any]:
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            result: dict[str, Any] = (await http.post("/mcp", json=body)).json()["result"]
            return result

        assert (
            await http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"})
        ).status_code == 202
        listed = [tool["name"] for tool in (await mcp("tools/list"))["tools"]]
        assert listed == ["add", "slow_add", "refuse", "submit"]
        early = await mcp("tools/call", name="add", arguments={"amount": 1})
        assert early["isError"]
        assert "Ask the policy" in early["content"][0]["text"]
        program = Program(http, episode)
        message = await program.ask()
        done = await mcp("tools/call", name="add", arguments={"amount": 2})
        [call] = message["tool_calls"]
        program.messages.append({"role": "tool", "tool_call_id": call["id"], "content": done["content"][0]["text"]})
        await program.ask()
        await mcp("tools/call", name="submit", arguments={})

    [trajectory] = await through_gateway(SCRIPT, play)
    assert trajectory.outcome == {"success": 1.0}
    assert [[result.content for result in turn.results] for turn in trajectory.turns] == [["2"], ["submitted 2"]]


@pytest.mark.parametrize(
    ("path", "body", "sign", "error"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}]}, ": the", '{"error": {"message": '),
        ("/v1/responses", {"input": "x"}, ": the", 'event: error\ndata: {"type": "error", "code": '),
        ("/v1/messages", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9}, ": the", "event: error\n"),
        ("/v1/models/m:streamGenerateContent?alt=sse", {"contents": [{"parts": [{"text": "x"}]}]}, "\n", '{"error": {'),
    ],
)
async def test_a_stream_begins_before_the_policy_has_written_and_ends_with_what_came_of_it(path, body, sign, error):
    class Slow(ScriptedPolicy):
        count, may_answer = 0, asyncio.Event()

        async def generate(self, request):
            self.count += 1
            await self.may_answer.wait()
            if self.count > 1:
                raise PolicyError("The model is gone.")
            return await super().generate(request)

    seen: list[str] = []

    async def client(http, episode):
        for _ in range(2):
            Slow.may_answer.clear()
            async with http.stream(
                "POST", path, json={**body, "stream": True} if "alt" not in path else body
            ) as answer:
                assert answer.status_code == 200
                text = ""
                async for part in answer.aiter_text():
                    text += part
                    Slow.may_answer.set()
            seen.append(text)

    [trajectory] = await through_gateway(
        Slow([say(text="Well.")], ByteRenderer()), client, budgets=Budgets(infra_retries=0)
    )
    assert "The model is gone." in trajectory.error
    assert all(text.startswith(sign) for text in seen)
    assert "Well." in seen[0]
    assert error in seen[1]
    assert "The episode has failed" in seen[1]
