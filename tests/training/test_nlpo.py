"""The logit hook `nlpo` in reinforcement: its masks are those of a slow copy, in sampler and trainer alike."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from lookup_runs import assert_equal_weights, execute, recipe

from agentgym.errors import PolicyError
from agentgym.methods.logit_hooks.nlpo import nucleus
from agentgym.policy import make_model, make_tokenizer
from agentgym.policy.contract import Request
from agentgym.policy.local import policy_of
from agentgym.storage.ledger import Ledger
from agentgym.training import Recipe
from agentgym.trajectory import TokenMask

SHORT = {
    "policy__logit_hook": "nlpo",
    "policy__logit_hook_options": {"top_p": 0.7, "refresh_every": 2},
    "warm_start__steps": 8,
    "warm_start__validate_every": 8,
    "train__steps": 4,
    "train__save_every": 1,
    "train__keep_checkpoints": 5,
    "train__optimiser": {"learning_rate": 3e-3},
}


SCORED = Recipe.parse(recipe(**SHORT).model_dump(exclude_none=True) | {"reward": {"name": "test_vowels"}})
"""Its reward pays differently even what random weights write, so that the policy moves."""


def test_a_nucleus_is_the_smallest_set_of_likeliest_tokens():
    logits = torch.log(torch.tensor([0.1, 0.5, 0.05, 0.3, 0.05]))
    assert nucleus(logits, 0.8) == TokenMask((1, 3), allowed=True)
    assert nucleus(logits, 0.81) == TokenMask((2, 4), allowed=False)
    assert nucleus(logits, 0.4) == TokenMask((1,), allowed=True)
    assert nucleus(logits, 0.4, at_least=2) == TokenMask((1, 3), allowed=True)
    assert nucleus(logits, 0.999) is None


@pytest.fixture
def policy():
    tokenizer = make_tokenizer(["a b c"] * 20, vocab_size=300)
    model = make_model(tokenizer, seed=0, hidden=32, layers=2, heads=2, kv_heads=1)
    options = {"logit_hook": "nlpo", "logit_hook_options": {"top_p": 0.5, "refresh_every": 2}}
    return policy_of(model.eval(), tokenizer, "hermes", {}, **options)


def test_the_copy_follows_every_so_many_steps_and_nothing_is_restricted_before_it_is_made(policy):
    request = Request([], prefix_ids=[5, 6, 7])
    assert policy.hook_maker(request) is None
    policy.hook_maker.begin()

    def masks() -> list[TokenMask]:
        hook = policy.hook_maker(request)
        return [hook([]), hook([8]), hook([8, 9])]

    def expected() -> list[TokenMask]:
        with torch.no_grad():
            logits = policy.model(torch.tensor([[5, 6, 7, 8, 9]])).logits[0]
        return [nucleus(logits[column], 0.5) for column in (2, 3, 4)]

    first = expected()
    assert masks() == first
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    policy.version = 1
    assert masks() == first != expected()
    policy.version = 2
    assert masks() == expected()


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("nlpo") / "run"
    execute(SCORED, folder)
    return folder


def test_sampler_and_trainer_agree_on_the_masked_distribution(finished):
    steps = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    drifts = [row["guard/drift"] for row in steps if "guard/drift" in row]
    assert len(drifts) == 4
    assert max(drifts) < 5e-7
    ledger = Ledger(finished / "ledger.sqlite")
    turns = [turn for trajectory in ledger.trajectories("train-") for turn in trajectory.turns]
    ledger.close()
    masked = sum(end - begin for turn in turns for begin, end, _ in turn.masks)
    assert masked > 0.9 * sum(len(turn.token_ids) for turn in turns)


def test_a_resumed_run_has_the_copy_that_it_had(finished, tmp_path):
    """From step 3, whose copy is that of step 2, while the policy has moved."""
    resumed = tmp_path / "run"
    shutil.copytree(finished, resumed)
    for name in ("final", "checkpoint-4"):
        shutil.rmtree(resumed / "checkpoints" / name)
    for name in ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"):
        (resumed / name).unlink(missing_ok=True)
    execute(SCORED, resumed, resume=True)
    assert_equal_weights(finished, resumed)


def hooked(policy, options: dict) -> None:
    tokenizer = policy.renderer.tokenizer
    policy_of(policy.model, tokenizer, "hermes", {}, logit_hook="nlpo", logit_hook_options=options)


def test_wrong_options_are_named(policy):
    for options in ({"top_p": 1.0}, {"refresh_every": 0}, {"at_least": 0}):
        with pytest.raises(PolicyError, match="'nlpo' cannot use top_p"):
            hooked(policy, options)
    with pytest.raises(PolicyError, match=r"'nlpo' does not accept.*Its options are: top_p, refresh_every, at_least"):
        hooked(policy, {"mu": 1})
