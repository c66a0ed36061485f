"""Tools as programs describe them: in a namespace, as a text in a grammar, or run by the provider."""

from __future__ import annotations

from typing import Any

import pytest
from gateway_clients import Program, through_gateway
from scripted_episodes import say

from agentgym.interop.gateway.anthropic_messages import AnthropicMessages
from agentgym.interop.gateway.chat import key_of
from agentgym.interop.gateway.responses import Responses
from agentgym.messages import Call, Message

pytest.importorskip("starlette")

PATCH: dict[str, Any] = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Change files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: begin hunk+ end"},
}
CODEX_TOOLS: list[dict[str, Any]] = [
    {"type": "function", "name": "exec_command", "strict": False, "parameters": {"type": "object", "properties": {}}},
    {"type": "namespace", "name": "mcp__gym", "tools": [{"type": "function", "name": "add"}, PATCH]},
    PATCH,
    {"type": "web_search", "external_web_access": True},
]


def names(chat) -> list[str]:
    return [tool["function"]["name"] for tool in chat.tools]


def test_codex_tools_are_functions_for_the_policy_without_those_of_the_provider():
    chat = Responses().read({"input": "x", "tools": CODEX_TOOLS})
    assert names(chat) == ["exec_command", "mcp__gym__add", "mcp__gym__apply_patch", "apply_patch"]
    text = chat.tools[3]["function"]["parameters"]["properties"]["input"]
    assert "start: begin hunk+ end" in text["description"]


def test_a_tool_of_the_provider_is_left_out_of_messages():
    own = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
    body = {
        "messages": [{"role": "user", "content": "x"}],
        "tools": [own, {"type": "web_search_20250305", "name": "w"}],
    }
    assert names(AnthropicMessages().read(body)) == ["look"]


@pytest.mark.parametrize("choice", ["none", {"type": "none"}])
def test_without_a_choice_of_tools_the_policy_sees_none(choice):
    chat = Responses().read({"input": "x", "tools": CODEX_TOOLS, "tool_choice": choice})
    assert (chat.tools, chat.forms) == ((), {})


async def test_calls_go_out_and_come_back_in_the_form_of_the_program():
    script = [
        say(("mcp__gym__add", {"amount": 2}), ("apply_patch", {"input": "*** Begin"}), ("apply_patch", {"diff": "x"})),
        say("mcp__gym__add"),
    ]
    seen: list[dict[str, Any]] = []

    async def client(http, episode):
        items: list[dict[str, Any]] = [{"role": "user", "content": "Count."}]
        for _ in script:
            body = {"input": items, "tools": CODEX_TOOLS}
            answer = (await http.post("/v1/responses", json=body)).raise_for_status().json()
            calls = [item for item in answer["output"] if "call_id" in item]
            seen.extend(calls)
            items += answer["output"]
            items += [{"type": c["type"] + "_output", "call_id": c["call_id"], "output": "ok"} for c in calls]
        await http.post("/episode/end", json={})

    [trajectory] = await through_gateway(script, client)
    assert trajectory.error is None
    assert not trajectory.further_rows  # the second request continues the first
    sent = [{key: item.get(key) for key in ("type", "name", "namespace", "arguments", "input")} for item in seen[:3]]
    text = {"type": "custom_tool_call", "name": "apply_patch", "namespace": None, "arguments": None}
    assert sent == [
        {"type": "function_call", "name": "add", "namespace": "mcp__gym", "arguments": '{"amount": 2}', "input": None},
        {**text, "input": "*** Begin"},
        {**text, "input": '{"diff": "x"}'},
    ]


async def test_a_request_that_names_the_answer_before_it_continues_the_conversation():
    tools = [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in ("add", "submit")]

    async def client(http, episode):
        async def ask(**body):
            body = {"tools": tools, "instructions": "You count.", **body}
            return (await http.post("/v1/responses", json=body)).raise_for_status().json()

        first = await ask(input="Count.")
        [call] = first["output"]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "2"}
        await ask(input=[result], previous_response_id=first["id"])
        # the same conversation, with references to items in place of them
        await ask(input=[{"role": "user", "content": "Count."}, {"type": "item_reference", "id": call["id"]}, result])
        unknown = await http.post("/v1/responses", json={"input": "x", "previous_response_id": "resp_x"})
        assert "resp_x" in unknown.json()["error"]["message"]
        await ask(input="Once more.")
        await http.post("/episode/end", json={})

    script = [say(("add", {"amount": 2})), say(text="Two."), say(text="Two again."), say(text="Well.")]
    [trajectory] = await through_gateway(script, client)
    assert trajectory.error is None
    assert [turn.row for turn in trajectory.turns] == [0, 0, 1, 2]
    assert [message.role for message in trajectory.opening] == ["system", "user"]
    rows = trajectory.further_rows
    assert [(message.role, message.text) for message in rows[0].opening[2:]] == [("assistant", ""), ("tool", "2")]
    assert rows[0].opening[2].calls[0].name == "add"


async def test_a_custom_tool_of_chat_completions_takes_a_text():
    async def client(http, episode):
        program = Program(http, episode)
        tools = [{"type": "custom", "custom": {"name": "note", "description": "Note."}}]
        message = await program.ask(tools=tools)
        [call] = message["tool_calls"]
        assert (call["type"], call["custom"]) == ("custom", {"name": "note", "input": "hm"})
        program.messages.append({"role": "tool", "tool_call_id": call["id"], "content": "ok"})
        await program.ask(tools=tools)
        await http.post("/episode/end", json={})

    [trajectory] = await through_gateway([say(("note", {"input": "hm"})), say(text="done")], client)
    assert trajectory.error is None
    assert not trajectory.further_rows


async def test_a_call_that_a_program_makes_over_mcp_under_another_name_is_the_policys_call():
    script = [say(("mcp__gym__add", {"amount": 2})), say(("gym_submit", {}))]

    async def client(http, episode):
        messages = list(episode["messages"])
        for tool, arguments in (("add", {"amount": 2}), ("submit", {})):
            answer = await http.post("/v1/chat/completions", json={"messages": messages})
            message = answer.raise_for_status().json()["choices"][0]["message"]
            called = await http.post(f"/episode/tools/{tool}", json=arguments)
            messages += [message]
            messages += [
                {"role": "tool", "tool_call_id": call["id"], "content": called.json()["text"]}
                for call in message["tool_calls"]
            ]

    [trajectory] = await through_gateway(script, client)
    assert (trajectory.error, trajectory.success) == (None, 1.0)
    assert [len(turn.calls) for turn in trajectory.turns] == [1, 1]  # not once more as the program's own
    assert [turn.calls[0].name for turn in trajectory.turns] == ["mcp__gym__add", "gym_submit"]


async def test_the_length_of_a_prompt_and_the_name_of_a_model_are_answered():
    body = {"messages": [{"role": "user", "content": "How long?"}], "max_tokens": 5}
    seen: dict[str, Any] = {}

    async def client(http, episode):
        seen["tokens"] = (await http.post("/v1/messages/count_tokens", json=body)).raise_for_status().json()
        seen["model"] = (await http.get("/v1/models/claude-x")).raise_for_status().json()["id"]
        answer = (await http.post("/v1/messages", json=body)).raise_for_status().json()
        seen["read"] = answer["usage"]["input_tokens"]
        await http.post("/episode/end", json={})

    [trajectory] = await through_gateway([say(text="Hm.")], client)
    assert trajectory.error is None
    assert seen["tokens"] == {"input_tokens": seen["read"]}
    assert seen["model"] == "claude-x"


def test_a_system_message_in_the_middle_is_read():
    body = {"messages": [{"role": "user", "content": "x"}, {"role": "system", "content": "Agents: ..."}]}
    assert AnthropicMessages().read(body).messages[1] == Message("system", "Agents: ...")


def test_a_text_and_the_json_that_is_sent_for_other_arguments_are_one_message():
    written = Message("assistant", "", (Call("apply_patch", {"diff": "x"}, "c"),))
    returned = Message("assistant", "", (Call("apply_patch", {"input": '{"diff": "x"}'}, "c"),))
    assert key_of(written) == key_of(returned)
