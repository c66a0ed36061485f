"""A chat API as a policy, against a real server: what is sent, and what is made of strange answers."""

from __future__ import annotations

import asyncio
import json

import pytest
from model_server import Answer, serving

from agentgym.bridges.chat_api import ChatApiPolicy
from agentgym.errors import PolicyError, UnknownNameError
from agentgym.formats.tags import Tags
from agentgym.messages import Call, ImagePart, Message, TextPart
from agentgym.policy import Request, RetryPolicy, Sampling
from agentgym.storage.codec import message_from_json, message_to_json

QUICK = RetryPolicy(attempt_s=5, total_s=20, attempts=3, backoff_s=0.001, longest_backoff_s=0.002)
OPENING = (Message("system", "Use SQL."), Message("user", "How many?"))


def says(content=None, calls=None, finish="stop", **more):
    message = {"role": "assistant", "content": content} | ({"tool_calls": calls} if calls is not None else {})
    return {"choices": [{"message": message, "finish_reason": finish}], **more}


def tool_call(name="query", arguments='{"sql": "SELECT 1"}', call_id="abc"):
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


async def ask(server, request, **options):
    policy = ChatApiPolicy(server.url + "/v1", "m", retry_policy=QUICK, **options)
    try:
        return await policy.generate(request)
    finally:
        await policy.close()


async def test_native_calls_and_results_travel_as_the_api_has_them(tools):
    calls = Call("query", {"sql": "SELECT 1"}, "abc"), Call("", {}, "bad", error="not JSON")
    answer = Message("assistant", "I look.", calls)
    results = (Message("tool", "7", call_id="abc", name="query"), Message("tool", "not JSON", call_id="bad"))
    usage = {"prompt_tokens": 30, "completion_tokens": 4}
    with serving(says("It is", [tool_call()], usage=usage)) as server:
        sampling = Sampling(temperature=0.3, top_p=0.9, max_tokens=77, seed=2**40 + 3)
        reply = await ask(server, Request((*OPENING, answer, *results), tools, sampling=sampling), extra={"top_k": 5})
    path, body, _ = server.requests[0]
    assert path == "/v1/chat/completions"
    assert body["messages"] == [
        {"role": "system", "content": "Use SQL."},
        {"role": "user", "content": "How many?"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [tool_call(), tool_call("unreadable", "{}", "bad")],
        },
        {"role": "tool", "content": "7", "tool_call_id": "abc"},
        {"role": "tool", "content": "not JSON", "tool_call_id": "bad"},
    ]
    assert body["tools"] == list(tools)
    assert {name: body[name] for name in ("model", "temperature", "top_p", "max_tokens", "seed", "top_k")} == {
        "model": "m",
        "temperature": 0.3,
        "top_p": 0.9,
        "max_tokens": 77,
        "seed": 3,
        "top_k": 5,
    }
    assert reply.message == Message("assistant", "It is", (Call("query", {"sql": "SELECT 1"}, "abc"),))
    assert (reply.prompt_tokens, reply.completion_tokens, reply.token_ids) == (30, 4, None)


@pytest.mark.parametrize(
    ("written", "says_what"),
    [
        (tool_call(arguments='{"sql": '), "not valid JSON"),
        (tool_call(arguments="[" * 3000), "nested too deeply"),
        (tool_call(arguments='{"x": NaN}'), "NaN is not a JSON number"),
        (tool_call(arguments='"SELECT 1"'), "not a string"),
        (tool_call(arguments=[1]), "not a list"),
        (tool_call(name=""), "names no tool"),
        ({"function": None}, "names no tool"),
        ("garbage", "names no tool"),
    ],
)
async def test_a_call_that_cannot_be_understood_is_an_error_beside_the_good_one(written, says_what, tools):
    with serving(says(None, [written, tool_call()])) as server:
        reply = await ask(server, Request(OPENING, tools))
    bad, good = reply.message.calls
    assert says_what in str(bad.error)
    assert good == Call("query", {"sql": "SELECT 1"}, "abc")


async def test_arguments_may_be_missing_or_already_an_object(tools):
    written = [tool_call(arguments=given) for given in ("", {"sql": "x"}, None)]
    with serving(says(None, written)) as server:
        reply = await ask(server, Request(OPENING, tools))
    assert [call.arguments for call in reply.message.calls] == [{}, {"sql": "x"}, {}]
    assert all(call.error is None for call in reply.message.calls)


async def test_half_of_a_surrogate_pair_is_neither_read_nor_sent(tools):
    answer = Message("assistant", "a\ud800", (Call("query", {"sql": "x"}, "abc\udc00"),))
    with serving(says("It is \ud800", [tool_call(arguments=r'{"sql": "\ud800"}')])) as server:
        reply = await ask(server, Request((*OPENING, answer), tools))
    assert server.bodies[0]["messages"][-1]["content"] == "a\ufffd"
    assert reply.message.text == "It is \ufffd"
    assert "half of a surrogate pair" in str(reply.message.calls[0].error)


async def test_a_flood_of_calls_is_bounded(tools):
    with serving(says(None, [tool_call()] * 1000)) as server:
        reply = await ask(server, Request(OPENING, tools))
    assert len(reply.message.calls) == 65
    assert "936 more" in str(reply.message.calls[-1].error)


async def test_text_calls_serve_a_server_without_tools(tools):
    answer = Message("assistant", "", (Call("query", {"sql": "SELECT 1"}), Call("", error="x")))
    with serving(says('Then <tool_call>{"name": "query", "arguments": {"sql": "2"}}</tool_call>')) as server:
        request = Request((*OPENING, answer, Message("tool", "7", name="query")), tools)
        reply = await ask(server, request, call_format="hermes")
    (body,) = server.bodies
    assert "tools" not in body
    system, _, assistant, result = body["messages"]
    assert system["content"].startswith("Use SQL.\n\nYou may call these tools:\n{")
    assert '"name": "query"' in system["content"]
    assert assistant["content"] == '<tool_call>{"name": "query", "arguments": {"sql": "SELECT 1"}}</tool_call>'
    assert result == {"role": "user", "content": "<tool_response>\n7\n</tool_response>"}
    assert reply.message == Message("assistant", "Then", (Call("query", {"sql": "2"}),))


async def test_tags_explain_every_tool(tools):
    other = {"type": "function", "function": {"name": "fly", "parameters": {}}}
    with serving(says("<sql>SELECT 1</sql>")) as server:
        request = Request(OPENING[1:], [*tools, other])
        reply = await ask(server, request, call_format=Tags({"sql": ("query", "sql")}))
    system_message = server.bodies[0]["messages"][0]
    assert system_message["role"] == "system"
    assert "<sql>the sql</sql>: Run one SELECT." in system_message["content"]
    assert '<call tool="fly">{...}</call> with {}' in system_message["content"]
    assert reply.message.calls == (Call("query", {"sql": "SELECT 1"}),)


async def test_images_are_sent_as_data_urls():
    message = Message("user", (TextPart("What is it?"), ImagePart("aGk=")))
    with serving(says("A cat.")) as server:
        await ask(server, Request([message]))
    assert server.bodies[0]["messages"][0]["content"] == [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
    ]


async def test_a_cut_reply_a_refusal_and_parts_are_read():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    for answer, text, finish in (
        (says("half", finish="length"), "half", "length"),
        (says("half", finish="content_filter"), "half", "content_filter"),
        (says("half", finish="max_tokens"), "half", "length"),
        (says("half", finish="model_length"), "half", "length"),
        (says("", finish="SAFETY"), "", "content_filter"),
        (says("", finish="end_turn"), "", "stop"),
        ({"choices": [{"message": {"content": None, "refusal": "No."}}]}, "No.", "stop"),
        (says(parts), "ab", "stop"),
        (says(None), "", "stop"),
    ):
        with serving(answer) as server:
            reply = await ask(server, Request(OPENING))
        assert (reply.message.text, reply.finish_reason) == (text, finish)


@pytest.mark.parametrize("finish", ["error", "abort", "insufficient_system_resource"])
async def test_a_message_that_the_server_broke_off_is_not_the_agents(finish):
    with serving(says("half", finish=finish)) as server, pytest.raises(PolicyError, match="broke the message off"):
        await ask(server, Request(OPENING))


@pytest.mark.parametrize("answer", [{}, {"choices": []}, {"choices": ["x"]}, {"choices": [{}]}, [], "hello", 3])
async def test_an_answer_of_another_kind_is_a_policy_error(answer):
    with serving(answer) as server, pytest.raises(PolicyError, match="base_url"):
        await ask(server, Request(OPENING))


async def test_many_requests_share_few_connections_and_all_come_back():
    with serving(Answer(says("ok"), after_s=0.005)) as server:
        policy = ChatApiPolicy(server.url, "m", retry_policy=QUICK, connections=4)
        replies = await asyncio.gather(*(policy.generate(Request(OPENING)) for _ in range(40)))
        await policy.close()
    assert [reply.message.text for reply in replies] == ["ok"] * 40


async def test_fields_that_a_server_refuses_can_be_left_out():
    with serving(says("ok")) as server:
        await ask(server, Request(OPENING, sampling=Sampling(seed=1)), omit=["seed", "top_p"])
    assert not {"seed", "top_p"} & set(server.requests[0][1])


@pytest.mark.parametrize(
    ("refusal", "remedy"),
    [
        (b"'seed' is not supported", r"Use omit=\[\"seed\"\] to leave out"),
        (b"max_tokens: use max_completion_tokens instead", "Use token_field=max_completion_tokens"),
        (b"no such model", "The request is not repeated"),
    ],
    ids=["seed", "tokens", "other"],
)
async def test_a_refused_field_is_answered_with_the_option_that_helps(refusal, remedy):
    with serving(Answer(refusal, status=400)) as server, pytest.raises(PolicyError, match=remedy):
        await ask(server, Request(OPENING, sampling=Sampling(seed=1)))


async def test_the_key_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("SOME_KEY", "sesame")
    with serving(says("ok")) as server:
        await ask(server, Request(OPENING), api_key_env="SOME_KEY")
    assert server.requests[0][2]["authorization"] == "Bearer sesame"
    monkeypatch.setenv("SOME_KEY", "")
    with pytest.raises(PolicyError, match="SOME_KEY"):
        ChatApiPolicy("http://127.0.0.1", "m", api_key_env="SOME_KEY")


def test_an_unknown_call_format_is_named():
    with pytest.raises(UnknownNameError, match="hermes"):
        ChatApiPolicy("http://127.0.0.1", "m", call_format="herms")


async def test_it_cannot_score():
    with pytest.raises(PolicyError, match="cannot score"):
        await ChatApiPolicy("http://127.0.0.1", "m").score([1], [2])


THOUGHTFUL = [
    {"reasoning_content": "First look."},
    {"reasoning": "First look."},
    {"reasoning_content": "First look.", "extra_content": {"google": {"thought_signature": "s"}}},
    {"reasoning": "First look.", "reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]},
]


@pytest.mark.parametrize("fields", THOUGHTFUL)
async def test_a_thought_is_kept_apart_and_sent_back_as_the_server_gave_it(fields, tools):
    signed = {**tool_call(), "extra_content": {"google": {"thought_signature": "t"}}}
    answer = says("I look.", [signed])
    answer["choices"][0]["message"] |= fields
    with serving(answer) as server:
        reply = await ask(server, Request(OPENING, tools))
        assert (reply.message.thought, reply.message.text) == ("First look.", "I look.")
        repeated = message_from_json(message_to_json(reply.message))
        assert repeated == reply.message
        result = Message("tool", "7", call_id="abc", name="query")
        await ask(server, Request((*OPENING, repeated, result), tools))
        await ask(server, Request((*OPENING, repeated, result), tools), omit=("reasoning_content", "reasoning"))
    (_, _, _), (_, repeated_body, _), (_, shortened_body, _) = server.requests
    sent = repeated_body["messages"][2]
    assert sent == {"role": "assistant", "content": "I look.", "tool_calls": [signed], **fields}
    assert not {"reasoning_content", "reasoning"} & shortened_body["messages"][2].keys()


async def test_a_thought_in_the_content_is_no_speech_and_no_call(tools):
    thought = '<think>maybe <tool_call>{"name": "query", "arguments": {}}</tool_call></think>It is 7.'
    opened_before = thought.removeprefix("<think>")
    with serving(says(thought), says(opened_before)) as server:
        for written in (thought, opened_before):
            reply = await ask(server, Request(OPENING, tools), call_format="hermes")
            assert reply.message == Message("assistant", written)
            assert reply.message.text == "It is 7."


async def test_a_server_that_refuses_thoughts_in_the_history_is_told_from_one_that_wants_them(tools):
    history = (*OPENING, Message("assistant", "Hm.", reasoning="x"), Message("user", "And?"))
    refusal = Answer(status=400, body={"error": "reasoning_content is not supported in input"})
    with serving(refusal) as server, pytest.raises(PolicyError, match=r'omit=\["reasoning_content"\]'):
        await ask(server, Request(history, tools))


EVENTS = {"content-type": "text/event-stream"}


def events(*deltas, finish="tool_calls", done=True):
    """A stream as servers send it: a chunk for each delta, then the reason of the end and the usage."""
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}] if finish else []
    chunks.append({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}})
    lines = [": a comment", *(f"data: {json.dumps(chunk)}" for chunk in chunks), *(["data: [DONE]"] if done else [])]
    return Answer("".join(f"{line}\r\n\r\n" for line in lines).encode(), headers=EVENTS)


PARTS = [
    {"role": "assistant", "content": ""},
    {"reasoning_content": "Look "},
    {"reasoning_content": "it up."},
    {"content": "One "},
    {"content": "moment ü."},
]
CALL_PARTS = [
    {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "query", "arguments": ""}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"sql": "SEL'}}]},
    {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "query", "arguments": '{"sql": "x"}'}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": 'ECT 1"}'}}]},
]


async def test_a_server_that_only_streams_is_read_as_any_other(tools):
    with serving(events(*PARTS, *CALL_PARTS)) as server:
        reply = await ask(server, Request([Message("user", "Hello")], tools), stream=True)
    assert server.bodies[0]["stream"] is True
    assert (reply.message.text, reply.message.thought) == ("One moment ü.", "Look it up.")
    assert [(c.name, c.arguments, c.id) for c in reply.message.calls] == [
        ("query", {"sql": "SELECT 1"}, "a"),
        ("query", {"sql": "x"}, "b"),
    ]
    assert (reply.prompt_tokens, reply.completion_tokens) == (7, 3)


async def test_calls_without_an_index_are_told_apart_by_their_names(tools):
    parts = [
        {"tool_calls": [{"id": name, "function": {"name": "query", "arguments": json.dumps({"sql": name})}}]}
        for name in "ab"
    ]
    with serving(events(*parts)) as server:
        reply = await ask(server, Request([Message("user", "Hello")], tools), stream=True)
    assert [c.arguments["sql"] for c in reply.message.calls] == ["a", "b"]


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (events({"content": "Ha"}, finish=None, done=False), "ended the stream before the message was complete"),
        (
            Answer(b'data: {"error": {"message": "overloaded"}}\n\n', headers=EVENTS),
            "ended the stream with an error: .*overloaded",
        ),
        (Answer(b"data: <html>\n\n", headers=EVENTS), "an event that is not JSON: '<html>'"),
        (Answer(b'data: {"choices": 3}\n\n', headers=EVENTS), "something that is not part of a chat completion"),
        (Answer(b'data: {"choices": [3]}\n\n', headers=EVENTS), "something that is not part of a chat completion"),
        (
            Answer(b'data: {"choices": [{"delta": "Ha"}]}\n\n', headers=EVENTS),
            "something that is not part of a chat completion",
        ),
    ],
)
async def test_a_stream_that_breaks_off_is_asked_for_again(broken, message):
    request = Request([Message("user", "Hello")], ())
    with serving(broken, events({"content": "Hello"}, finish="stop")) as server:
        reply = await ask(server, request, stream=True)
    assert (reply.message.text, len(server.requests)) == ("Hello", 2)
    with serving(broken) as server, pytest.raises(PolicyError, match=message):
        await ask(server, request, stream=True)


async def test_a_server_that_refuses_to_answer_at_once_is_met_with_the_option():
    refusal = Answer({"error": "This model supports streaming only: set stream to true."}, status=400)
    with serving(refusal) as server, pytest.raises(PolicyError, match=r"Use stream=true\."):
        await ask(server, Request([Message("user", "Hello")], ()))
