"""check_policy passes a sound policy and names the fault of every broken one."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from breaches import breach

from agentgym import Message, Policy, ScriptedPolicy
from agentgym.policy import Reply
from agentgym.testing import ByteRenderer, check_policy


def says(messages):
    return Message("assistant", f"There are {len(messages)} messages.")


async def test_a_scripted_policy_passes_with_and_without_a_renderer():
    await check_policy(ScriptedPolicy(says), scripted=True)
    await check_policy(ScriptedPolicy(says, ByteRenderer()), scripted=True)


class Twisted(Policy):
    """A scripted policy whose replies are twisted by a function."""

    def __init__(self, twist):
        self.inner, self.twist = ScriptedPolicy(says, ByteRenderer()), twist
        self.renderer = self.inner.renderer

    async def generate(self, request):
        return self.twist(await self.inner.generate(request), request)


@pytest.mark.parametrize(
    ("twist", "fragment"),
    [
        (lambda r, q: replace(r, logprobs=r.logprobs[:-1]), "log-probabilities"),
        (lambda r, q: replace(r, logprobs=[0.5] * len(r.token_ids)), "at most 0"),
        (lambda r, q: replace(r, logprobs=[math.nan] * len(r.token_ids)), "finite float"),
        (lambda r, q: replace(r, token_ids=None), "no token_ids"),
        (lambda r, q: replace(r, token_ids=[]), "at least one plain int"),
        (lambda r, q: replace(r, message=Message("assistant", "Something else.")), "the token ids say"),
        (lambda r, q: replace(r, message=Message("user", "Hi.")), "the assistant's"),
        (lambda r, q: replace(r, finish_reason="eos"), "finish_reason is 'eos'"),
        (lambda r, q: replace(r, policy_version=3), "version 3"),
        (lambda r, q: "There.", "expected a Reply"),
        (lambda r, q: (setattr(q, "messages", ()), r)[1], "changed the request"),
        (lambda r, q: replace(r, token_ids=[ord(random.choice("ab")) for _ in r.token_ids]), "not on the company"),
    ],
)
async def test_a_reply_that_breaks_the_contract_is_caught(twist, fragment):
    with breach(fragment):
        await check_policy(Twisted(twist), scripted=True)


async def test_a_policy_that_ignores_its_budget_is_caught():
    with breach("max_tokens is 4"):
        await check_policy(ScriptedPolicy(says, ByteRenderer()), max_tokens=4)


class Forgeable(ByteRenderer):
    """Reads the spelling of a control token in a tool result as that token."""

    def observation(self, messages):
        return [257 if token == ord("<") else token for token in super().observation(messages)] + (
            [258] if any("<|im_end|>" in m.text for m in messages) else []
        )


async def test_a_renderer_through_which_a_result_forges_a_turn_is_caught():
    with breach("forges a turn"):
        await check_policy(ScriptedPolicy(says, Forgeable()), scripted=True)


async def test_a_policy_that_scores_too_few_tokens_is_caught():
    class Scores(Twisted):
        async def score(self, prefix_ids, continuation_ids):
            return [-1.0]

    with breach("score gave"):
        await check_policy(Scores(lambda reply, request: reply), scripted=True)


async def test_a_policy_that_fails_is_caught():
    class Down(Policy):
        async def generate(self, request) -> Reply:
            raise ConnectionError("no server")

    with breach("generate raised ConnectionError"):
        await check_policy(Down())
