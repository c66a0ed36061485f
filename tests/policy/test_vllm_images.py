"""Images for a vLLM server: one token each, the image beside them, and no word of a prompt that was read otherwise."""

from __future__ import annotations

import pytest
from model_server import serving
from vision_models import RED, conversation, llava

from agentgym.errors import PolicyError
from agentgym.policy import Hermes, ImageTokens, Request, RetryPolicy, Sampling, TemplateRenderer, VllmPolicy

ONCE = RetryPolicy(attempt_s=5, total_s=5, attempts=1)


@pytest.fixture(scope="module")
def seeing():
    processor, _ = llava()
    return TemplateRenderer(processor.tokenizer, Hermes(), images=ImageTokens(processor))


def answer(prompt_ids, ids):
    rows = [{"token_id": token, "logprob": -0.25 * index} for index, token in enumerate(ids)]
    choice = {"index": 0, "token_ids": ids, "logprobs": {"content": rows}, "finish_reason": "stop"}
    return {"choices": [choice], "prompt_token_ids": prompt_ids}


async def reply_for(server, renderer, messages):
    policy = VllmPolicy(server.url, "tiny", renderer=renderer, context_tokens=500, retry_policy=ONCE)
    prefix = renderer.prompt(messages, ())
    try:
        return await policy.generate(Request(messages, (), prefix, Sampling(0.5, max_tokens=9, seed=7)))
    finally:
        await policy.close()


async def test_images_go_beside_tokens_that_hold_each_once(seeing):
    messages = conversation(RED, RED)
    prefix = seeing.prompt(messages, ())
    with serving(answer(prefix, [5, 6])) as server:
        reply = await reply_for(server, seeing, messages)
    path, body, _ = server.requests[0]
    assert path == "/inference/v1/generate"
    assert body["token_ids"].count(seeing.images.image_token_id) == 2
    assert [part["url"] for part in body["content_parts"]] == [f"data:image/png;base64,{RED.data}"] * 2
    sampling = body["sampling_params"]
    assert (sampling["temperature"], sampling["seed"], sampling["max_tokens"]) == (0.5, 7, 9)
    assert sampling["logit_bias"] == {str(token): -100.0 for token in seeing.images.reserved_ids}
    assert (reply.token_ids, reply.logprobs) == ([5, 6], [0.0, -0.25])


async def test_a_server_that_read_other_tokens_is_refused(seeing):
    messages = conversation(RED)
    prefix = seeing.prompt(messages, ())
    for read in (prefix[:-1], None, [*prefix, 1]):
        with (
            serving(answer(read, [5])) as server,
            pytest.raises(PolicyError, match="prompt tokens instead of the expected"),
        ):
            await reply_for(server, seeing, messages)


async def test_a_text_renderer_says_what_it_lacks(renderer):
    with serving(answer([1], [5])) as server:
        policy = VllmPolicy(server.url, "tiny", renderer=renderer, context_tokens=500, retry_policy=ONCE)
        with pytest.raises(PolicyError, match="ImageTokens"):
            await policy.generate(Request(conversation(RED), (), [1, 2]))
        await policy.close()
    assert not server.requests
