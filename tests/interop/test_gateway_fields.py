"""Every field of a request is obeyed, has no effect, or is refused by its name, in each API alike."""

from __future__ import annotations

import json
from typing import Any

import pytest
from gateway_clients import Program, through_gateway
from scripted_episodes import say

from agentgym import Policy
from agentgym.cluster.served_episodes import ServerRefusal
from agentgym.interop.gateway.anthropic_messages import AnthropicMessages
from agentgym.interop.gateway.chat_completions import ChatCompletions
from agentgym.interop.gateway.generate_content import GenerateContent
from agentgym.interop.gateway.responses import Responses
from agentgym.policy import Reply
from agentgym.policy.contract import Constraints
from agentgym.testing import ByteRenderer
from agentgym.thoughts import split_thoughts

pytest.importorskip("starlette")

CHAT, RESPONSES, ANTHROPIC, GOOGLE = ChatCompletions(), Responses(), AnthropicMessages(), GenerateContent()
PARAMETERS = {"type": "object", "properties": {}}
SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}}


def body_of(api, **fields: Any) -> dict[str, Any]:
    """A request with the tools `add` and `submit`, and further fields."""
    names = ("add", "submit")
    if api is GOOGLE:
        declared = [{"name": name} for name in names]
        usual = {"contents": [{"parts": [{"text": "x"}]}], "tools": [{"functionDeclarations": declared}]}
        return {**usual, **fields}
    functions = [{"name": name, "parameters": PARAMETERS} for name in names]
    tools = {
        CHAT: [{"type": "function", "function": function} for function in functions],
        RESPONSES: [{"type": "function", **function} for function in functions],
        ANTHROPIC: [{"name": name, "input_schema": PARAMETERS} for name in names],
    }[api]
    messages = {"input": "x"} if api is RESPONSES else {"messages": [{"role": "user", "content": "x"}]}
    return {"tools": tools, **messages, **fields}


ALLOWED = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "submit"}]}
GOOGLE_ANY = {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["submit"]}}


@pytest.mark.parametrize(
    ("api", "fields", "constraints"),
    [
        (CHAT, {"tool_choice": "required"}, {"tool_choice": ("add", "submit")}),
        (CHAT, {"tool_choice": {"type": "function", "function": {"name": "add"}}}, {"tool_choice": ("add",)}),
        (RESPONSES, {"tool_choice": {"type": "function", "name": "add"}}, {"tool_choice": ("add",)}),
        (RESPONSES, {"tool_choice": ALLOWED}, {"tool_choice": ("submit",)}),
        (CHAT, {"tool_choice": {"type": "allowed_tools", "allowed_tools": ALLOWED}}, {"tool_choice": ("submit",)}),
        (ANTHROPIC, {"tool_choice": {"type": "any"}}, {"tool_choice": ("add", "submit")}),
        (ANTHROPIC, {"tool_choice": {"type": "tool", "name": "add"}}, {"tool_choice": ("add",)}),
        (GOOGLE, {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}}, {"tool_choice": ("add", "submit")}),
        (GOOGLE, {"tool_config": GOOGLE_ANY}, {"tool_choice": ("submit",)}),
        (CHAT, {"parallel_tool_calls": False}, {"one_call": True}),
        (RESPONSES, {"parallel_tool_calls": False}, {"one_call": True}),
        (ANTHROPIC, {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}, {"one_call": True}),
        (CHAT, {"stop": "END"}, {"stop": ("END",)}),
        (CHAT, {"stop": ["A", "B"]}, {"stop": ("A", "B")}),
        (ANTHROPIC, {"stop_sequences": ["A"]}, {"stop": ("A",)}),
        (GOOGLE, {"generationConfig": {"stopSequences": ["A"]}}, {"stop": ("A",)}),
        (CHAT, {"response_format": {"type": "json_object"}}, {"response_format": {}}),
        (
            CHAT,
            {"response_format": {"type": "json_schema", "json_schema": {"name": "t", "schema": SCHEMA}}},
            {"response_format": SCHEMA},
        ),
        (
            RESPONSES,
            {"text": {"format": {"type": "json_schema", "name": "t", "schema": SCHEMA}, "verbosity": "low"}},
            {"response_format": SCHEMA},
        ),
        (
            ANTHROPIC,
            {"output_config": {"effort": "low", "format": {"type": "json_schema", "schema": SCHEMA}}},
            {"response_format": SCHEMA},
        ),
        (GOOGLE, {"generationConfig": {"responseMimeType": "application/json"}}, {"response_format": {}}),
        (
            GOOGLE,
            {"generationConfig": {"responseMimeType": "application/json", "responseJsonSchema": SCHEMA}},
            {"response_format": SCHEMA},
        ),
        (CHAT, {"response_format": {"type": "text"}, "tool_choice": "auto", "stop": None}, {}),
    ],
)
def test_what_a_message_must_be_like_is_read(api, fields, constraints):
    chat = api.read(body_of(api, **fields))
    assert chat.constraints == Constraints(**constraints)
    assert len(chat.tools) == 2  # all are described, whichever must be called


def test_tools_that_may_not_be_called_are_left_out():
    allowed = {**ALLOWED, "mode": "auto"}
    assert [tool["function"]["name"] for tool in RESPONSES.read(body_of(RESPONSES, tool_choice=allowed)).tools] == [
        "submit"
    ]
    none = {"functionCallingConfig": {"mode": "NONE"}}
    assert GOOGLE.read(body_of(GOOGLE, toolConfig=none)).tools == ()


@pytest.mark.parametrize(
    ("api", "fields"),
    [
        (CHAT, {"user": "u", "metadata": {}, "store": True, "service_tier": "auto", "n": 1, "frequency_penalty": 0}),
        (CHAT, {"temperature": 0.2, "top_p": 0.9, "seed": 3, "reasoning_effort": "low", "max_completion_tokens": 9}),
        (RESPONSES, {"truncation": "disabled", "background": False, "reasoning": {}, "include": ["x"], "store": False}),
        (ANTHROPIC, {"thinking": {"type": "adaptive"}, "metadata": {}, "top_k": 5, "context_management": {}}),
        (GOOGLE, {"safetySettings": [], "generationConfig": {"topK": 64, "thinkingConfig": {}, "candidateCount": 1}}),
        (CHAT, {"unheard_of": None}),
    ],
)
def test_fields_that_change_nothing_here_are_accepted(api, fields):
    assert api.read(body_of(api, **fields)).constraints == Constraints()


@pytest.mark.parametrize(
    ("api", "fields", "message"),
    [
        (CHAT, {"n": 2}, "n = 2 is not supported. Give 1, or leave it out."),
        (CHAT, {"n": True}, "n = True is not supported"),
        (CHAT, {"unheard_of": 3}, "unheard_of = 3 is not supported. Leave it out."),
        (CHAT, {"logit_bias": {"5": 1}}, "logit_bias"),
        (CHAT, {"logprobs": True, "top_logprobs": 5}, "top_logprobs = 5 is not supported. Give 0"),
        (CHAT, {"functions": [{}]}, "functions"),
        (CHAT, {"temperature": "hot"}, "temperature must be a number, not 'hot'."),
        (CHAT, {"stop": [3]}, "A text of stop must be text, not 3."),
        (CHAT, {"stop": [""]}, "stop must have at most 16 texts of 1 to 256 characters."),
        (CHAT, {"tool_choice": "must"}, "tool_choice = 'must' is not known"),
        (
            CHAT,
            {"tool_choice": {"type": "function", "function": {"name": "f"}}},
            "tool_choice names 'f', which is none",
        ),
        (CHAT, {"tools": [], "tool_choice": "required"}, "demands a call, but offers no tool"),
        (CHAT, {"parallel_tool_calls": "no"}, "parallel_tool_calls must be true or false, not 'no'."),
        (CHAT, {"response_format": {"type": "yaml"}}, "response_format has the type 'yaml'"),
        (RESPONSES, {"conversation": "c"}, "conversation = 'c' is not supported"),
        (RESPONSES, {"background": True}, "background = True is not supported. Give False"),
        (RESPONSES, {"truncation": "auto"}, "truncation = 'auto' is not supported"),
        (RESPONSES, {"tool_choice": {"type": "web_search"}}, "tool_choice has the type 'web_search'"),
        (RESPONSES, {"text": {"colour": 1}}, "text.colour = 1 is not supported"),
        (ANTHROPIC, {"tool_choice": {"type": "must"}}, "tool_choice has the type 'must'"),
        (ANTHROPIC, {"stop_sequences": 3}, "stop_sequences must be a list, not 3."),
        (GOOGLE, {"generationConfig": {"candidateCount": 2}}, "generationConfig.candidateCount = 2 is not supported"),
        (GOOGLE, {"generationConfig": {"logprobs": 3}}, "generationConfig.logprobs = 3"),
        (GOOGLE, {"generationConfig": {"responseMimeType": "text/x.enum"}}, "responseMimeType = 'text/x.enum'"),
        (GOOGLE, {"toolConfig": {"functionCallingConfig": {"mode": "MUST"}}}, "the mode 'MUST'"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_name(api, fields, message):
    with pytest.raises(ServerRefusal) as refused:
        api.read(body_of(api, **fields))
    assert refused.value.status == 400
    assert message in str(refused.value)


async def test_text_ends_before_a_stop_and_the_record_keeps_what_was_sampled():
    script = [say(("add", {"amount": 2}), text="I add. END of it"), say(("add", {"amount": 2})), say("submit")]

    async def client(http, episode):
        program = Program(http, episode)
        body = {"messages": program.messages, "tools": episode["tools"], "stop": ["END", "add. EN"]}
        [choice] = (await http.post("/v1/chat/completions", json=body)).raise_for_status().json()["choices"]
        assert (choice["message"]["content"], choice["finish_reason"]) == ("I ", "stop")
        assert "tool_calls" not in choice["message"]
        program.messages += [choice["message"], {"role": "user", "content": "Go on."}]
        await program.play()

    [trajectory] = await through_gateway(script, client)
    assert (trajectory.error, trajectory.success) == (None, 1.0)
    assert not trajectory.further_rows
    first = trajectory.turns[0]
    assert first.token_ids == ByteRenderer().encode(script[0])
    assert first.message.text == "I add. END of it"
    ids = [*trajectory.prompt_ids, *first.token_ids, *first.observation_ids]
    assert trajectory.arrays().ids.tolist()[: len(ids)] == ids


async def test_anthropic_names_the_stop_sequence():
    async def client(http, episode):
        body = {"messages": episode["messages"], "max_tokens": 50, "stop_sequences": ["END"]}
        answer = (await http.post("/v1/messages", json=body)).raise_for_status().json()
        assert (answer["stop_reason"], answer["stop_sequence"]) == ("stop_sequence", "END")
        assert answer["content"] == [{"type": "text", "text": "So. "}]
        await http.post("/episode/end", json={})

    [trajectory] = await through_gateway([say(text="So. END")], client)
    assert trajectory.error is None


async def test_a_program_that_takes_one_call_is_sent_the_first():
    script = [say(("add", {"amount": 2}), ("add", {"amount": 5})), say("submit")]

    async def client(http, episode):
        program = Program(http, episode)
        message = await program.ask(program.messages, parallel_tool_calls=False)
        assert len(message["tool_calls"]) == 1
        program.messages.append(message)
        await program.answer_calls(message)
        await program.play()

    [trajectory] = await through_gateway(script, client)
    assert (trajectory.error, trajectory.success) == (None, 1.0)
    assert not trajectory.further_rows
    assert len(trajectory.turns[0].message.calls) == 2


async def test_a_policy_that_cannot_be_made_to_call_refuses_and_the_episode_has_failed():
    class Free(Policy):
        name, renderer = "free", ByteRenderer()

        async def generate(self, request):
            return Reply(say(text="No."), [1], [0.0])

    seen: dict[str, Any] = {}

    async def client(http, episode):
        body = {"messages": episode["messages"], "tools": episode["tools"], "tool_choice": "required"}
        answer = await http.post("/v1/chat/completions", json=body)
        seen["status"], seen["error"] = answer.status_code, answer.json()["error"]["message"]
        await http.post("/episode/end", json={})

    [trajectory] = await through_gateway(Free(), client)
    assert seen["status"] == 400
    assert seen["error"] == (
        "The policy free cannot be made to call a tool, or to write JSON. Ask without tool_choice and response_format, "
        "or sample with transformers."
    )
    assert seen["error"] in trajectory.error
    assert not trajectory.scored


async def test_the_log_probabilities_of_the_sampled_tokens_are_answered():
    async def client(http, episode):
        answer = await http.post(
            "/v1/chat/completions", json={"messages": episode["messages"], "logprobs": True, "temperature": 0.5}
        )
        [choice] = answer.raise_for_status().json()["choices"]
        content = choice["logprobs"]["content"]
        assert "".join(token["token"] for token in content) == "Hi."
        assert {token["logprob"] for token in content} == {0.0}
        body = {"input": "Hi?", "include": ["message.output_text.logprobs"]}
        [item] = (await http.post("/v1/responses", json=body)).raise_for_status().json()["output"]
        assert "".join(token["token"] for token in item["content"][0]["logprobs"]) == "Ho."
        body = {"contents": [{"parts": [{"text": "x"}]}], "generationConfig": {"responseLogprobs": True}}
        answer = (await http.post("/v1/models/m:generateContent", json=body)).raise_for_status().json()
        chosen = answer["candidates"][0]["logprobsResult"]["chosenCandidates"]
        assert "".join(token["token"] for token in chosen) == "Ha."
        await http.post("/episode/end", json={})

    [trajectory] = await through_gateway([say(text=text) for text in ("Hi.", "Ho.", "Ha.")], client)
    assert trajectory.error is None
    assert trajectory.provenance.extra["asked_sampling"] == {"temperature": 0.5}
    assert json.dumps(trajectory.provenance.extra)


async def test_a_model_in_this_process_calls_the_tool_that_a_program_demands():
    """Random weights: nothing but the forced opening makes it call. The masks are recorded for the trainer."""
    torch = pytest.importorskip("torch")
    from agentgym.policy import Hermes, TemplateRenderer, TransformersPolicy, make_model, make_tokenizer

    tokenizer = make_tokenizer(['<tool_call>{"name": "add", "arguments": {"amount": 2}}</tool_call>'] * 4, 300)
    torch.manual_seed(0)
    model = make_model(tokenizer, hidden=32, layers=2, heads=2, kv_heads=1).eval()
    policy = TransformersPolicy(model, TemplateRenderer(tokenizer, Hermes()))

    async def client(http, episode):
        demanded = {"tool_choice": {"type": "function", "function": {"name": "submit"}}, "max_tokens": 40}
        body = {"messages": episode["messages"], "tools": episode["tools"], **demanded}
        (await http.post("/v1/chat/completions", json=body)).raise_for_status()
        await http.post("/episode/end", json={})

    [trajectory] = await through_gateway(policy, client)
    await policy.close()
    assert trajectory.error is None
    [turn] = trajectory.turns
    speech = split_thoughts(tokenizer.decode(turn.token_ids))[1].lstrip()
    assert speech.startswith('<tool_call>{"name": "submit", "arguments": {') or turn.finish_reason == "length"
    assert turn.masks
    assert len(turn.logprobs) == len(turn.token_ids)
