"""A script as a policy: lists, functions, raw text, token ids."""

from __future__ import annotations

import pytest

from agentgym import ScriptedPolicy
from agentgym.errors import PolicyError
from agentgym.messages import Call, Message
from agentgym.policy import Request
from agentgym.testing import ByteRenderer
from agentgym.testing.byte_renderer import CALL, END

HI = Message("user", "hi")


async def test_a_list_is_followed_turn_by_turn():
    policy = ScriptedPolicy([Message("assistant", "a"), "b"])
    assert [(await policy.generate(Request([HI], turn=k))).message.text for k in (0, 1, 0)] == ["a", "b", "a"]


async def test_a_list_that_is_too_short_says_so():
    with pytest.raises(PolicyError, match=r"1 message.*turn 1 needs one more"):
        await ScriptedPolicy(["a"]).generate(Request([HI], turn=1))


async def test_an_answer_that_is_no_message_says_so():
    with pytest.raises(PolicyError, match=r"The script returned None\. It must return text, or a Message"):
        await ScriptedPolicy(lambda messages: None).generate(Request([HI], turn=0))


async def test_a_function_gets_the_conversation_so_far():
    policy = ScriptedPolicy(lambda messages: f"{len(messages)}: {messages[-1].text}")
    assert (await policy.generate(Request([HI, HI]))).message.text == "2: hi"


async def test_with_a_renderer_the_reply_has_the_ids_a_model_would_have_sampled():
    reply = await ScriptedPolicy([Message("assistant", "x", (Call("add", {"a": 1}),))], ByteRenderer()).generate(
        Request([HI])
    )
    assert reply.token_ids == [ord("x"), CALL, *b'["add", {"a": 1}]', END]
    assert reply.logprobs == [0.0] * len(reply.token_ids)
    assert reply.message.calls[0].arguments == {"a": 1}


async def test_without_a_renderer_there_are_no_ids():
    reply = await ScriptedPolicy(["x"]).generate(Request([HI]))
    assert reply.token_ids is None
    assert reply.logprobs is None
