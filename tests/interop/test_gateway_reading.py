"""Every API of the gateway reads the same conversation, and names what it cannot read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentgym.cluster.served_episodes import ServerRefusal
from agentgym.interop.gateway.anthropic_messages import AnthropicMessages
from agentgym.interop.gateway.chat import Chat
from agentgym.interop.gateway.chat_completions import ChatCompletions
from agentgym.interop.gateway.generate_content import GenerateContent
from agentgym.interop.gateway.responses import Responses
from agentgym.messages import Call, ImagePart, Message, TextPart

pytest.importorskip("starlette")

IMAGE = "data:image/png;base64,AAAA"


@pytest.mark.parametrize(
    ("api", "body"),
    [
        (
            ChatCompletions(),
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": IMAGE}}],
                    },
                    {
                        "role": "assistant",
                        "content": None,
                        "reasoning_content": "hm",
                        "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}],
                    },
                    {"role": "tool", "tool_call_id": "c", "content": "r"},
                ]
            },
        ),
        (
            Responses(),
            {
                "input": [
                    {
                        "role": "user",
                        "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": IMAGE}],
                    },
                    {"type": "reasoning", "id": "x", "summary": [{"type": "summary_text", "text": "hm"}]},
                    {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
                    {"type": "function_call_output", "call_id": "c", "output": "r"},
                ]
            },
        ),
        (
            AnthropicMessages(),
            {
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "text", "text": "a"},
                            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                        ],
                    },
                    {
                        "role": "assistant",
                        "content": [
                            {"type": "thinking", "thinking": "hm", "signature": ""},
                            {"type": "tool_use", "id": "c", "name": "f", "input": {}},
                        ],
                    },
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "r"}]},
                ]
            },
        ),
        (
            GenerateContent(),
            {
                "contents": [
                    {
                        "role": "user",
                        "parts": [{"text": "a"}, {"inline_data": {"mime_type": "image/png", "data": "AAAA"}}],
                    },
                    {
                        "role": "model",
                        "parts": [
                            {"text": "hm", "thought": True},
                            {"functionCall": {"id": "c", "name": "f"}, "thoughtSignature": "x"},
                        ],
                    },
                    {"parts": [{"functionResponse": {"id": "c", "name": "f", "response": {"output": "r"}}}]},
                ]
            },
        ),
    ],
)
def test_every_api_reads_the_same_conversation(api, body):
    assert api.read(body) == Chat(
        (
            Message("user", (TextPart("a"), ImagePart("AAAA"))),
            Message("assistant", "", (Call("f", {}, "c"),), reasoning="hm"),
            Message("tool", "r", call_id="c"),
        )
    )


@pytest.mark.parametrize("api", [ChatCompletions(), Responses(), AnthropicMessages(), GenerateContent()])
@pytest.mark.parametrize(
    "change",
    [
        {"messages": [], "input": [], "contents": []},
        {"messages": "x", "input": 3, "contents": "x"},
        {"messages": [1], "input": [1], "contents": [1]},
        {
            "messages": [{"role": "user", "content": 5}],
            "input": [{"role": "user", "content": 5}],
            "contents": [{"role": "user", "parts": [{"text": 5}]}],
        },
        {"tools": 1},
        {"tools": [{"name": 5, "functionDeclarations": [{"name": 5}]}]},
        {"max_tokens": 0, "max_output_tokens": "x", "generationConfig": {"maxOutputTokens": 0}},
        {"max_tokens": True, "max_output_tokens": True, "generationConfig": {"maxOutputTokens": True}},
        {
            "messages": [{"role": "user", "content": [{"type": "video"}]}],
            "input": [{"type": "computer_call"}],
            "contents": [{"role": "user", "parts": [{"fileData": {}}]}],
        },
    ],
)
def test_what_cannot_be_read_is_named(api, change):
    usual: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}], "input": "x"}
    usual["contents"] = [{"role": "user", "parts": [{"text": "x"}]}]
    known = {
        ChatCompletions: {"messages", "tools", "max_tokens"},
        AnthropicMessages: {"messages", "tools", "max_tokens"},
        Responses: {"input", "tools", "max_output_tokens"},
        GenerateContent: {"contents", "tools", "generationConfig"},
    }[type(api)]
    assert api.read({name: value for name, value in usual.items() if name in known}).messages
    with pytest.raises(ServerRefusal) as refused:
        api.read({name: value for name, value in {**usual, **change}.items() if name in known})
    assert refused.value.status == 400
    assert json.dumps(api.error(refused.value))
