"""Weights that are replaced while a model samples: which of them sampled which token, and who waits for whom."""

from __future__ import annotations

import copy
import threading
import time

import pytest
import torch

from agentgym.messages import Message
from agentgym.policy import Request, Sampling, TransformersPolicy, make_model
from agentgym.policy.swap_lock import SwapLock


def teacher_forced(model, prefix, tokens):
    """Log-probabilities of the tokens by one plain forward pass."""
    with torch.no_grad():
        logits = model(torch.tensor([[*prefix, *tokens]])).logits[0, len(prefix) - 1 : -1].double()
    return torch.log_softmax(logits, -1)[range(len(tokens)), list(tokens)].tolist()


async def test_weights_replaced_within_a_turn_sample_from_the_next_token_on(renderer, tokenizer, tools):
    """The token whose logits were computed before is of the old weights; a later turn is of the new ones alone."""
    model, trained = (make_model(tokenizer, hidden=64, layers=2, seed=seed) for seed in (0, 1))
    policy = TransformersPolicy(model, renderer)
    old_weights = copy.deepcopy(model)

    def replace_at_the_third(tokens):  # asked between two forward passes, as a trainer may come then
        if len(tokens) == 2 and policy.version == 4:
            policy.update_weights(trained, version=5)

    policy.version, policy.hook_maker = 4, lambda request: replace_at_the_third
    opening = [Message("user", "How many orders in 2000?")]
    sampling = Sampling(max_tokens=8, seed=3)
    request = Request(opening, tools, renderer.prompt(opening, tools), sampling, "episode")
    policy.episode_started(request.episode)
    reply = await policy.generate(request)
    assert (reply.policy_version, reply.version_changes) == (4, ((3, 5),))
    expected = teacher_forced(old_weights, request.prefix_ids, reply.token_ids[:3])
    assert reply.logprobs[:3] == pytest.approx(expected, abs=1e-4)
    assert reply.logprobs[3:] != pytest.approx(
        teacher_forced(old_weights, request.prefix_ids, reply.token_ids)[3:], abs=1e-3
    )
    observation = renderer.observation([Message("tool", "7")], ended=reply.finish_reason == "stop")
    prefix = [*request.prefix_ids, *reply.token_ids, *observation]
    reply = await policy.generate(Request(opening, tools, prefix, sampling, "episode", turn=1))
    assert (reply.policy_version, reply.version_changes) == (5, ())
    expected = teacher_forced(trained, prefix, reply.token_ids)
    assert reply.logprobs == pytest.approx(expected, abs=1e-4)
    await policy.close()


def test_a_replacement_that_waits_goes_before_the_next_forward_pass():
    """A decoding loop takes the lock again as soon as it is free, and would win it again and again."""
    lock, replaced = SwapLock(), threading.Event()

    def replace_weights():
        with lock.replacing():
            time.sleep(0.01)
            replaced.set()

    trainer = threading.Thread(target=replace_weights)
    with lock.computing():
        trainer.start()
        while lock._no_replacement.is_set():
            time.sleep(0.001)
        assert not replaced.is_set()
    with lock.computing():
        assert replaced.is_set()
    trainer.join()
