"""Decoupled PPO by hand, and what a trainer gives it with several iterations on a batch."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from tiny_trainers import rows, trainer_of
from token_batches import batch_of

from agentgym import registry
from agentgym.training.objectives import LossRequirements, define_loss
from agentgym.training.objectives.contract import make_objective
from agentgym.training.recipe.train_section import TrainSection

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
LN2 = math.log(2)


def one_token(*, now: float, start: float | None, behaviour: float, advantage: float):
    """A batch of one episode with one own token, log-probabilities relative to -1."""
    logps = torch.tensor([[now - 1.0, 5.0]], requires_grad=True)
    tokens = batch_of(torch.zeros(1, 2, 2))
    return replace(
        tokens,
        logps=logps,
        own=torch.tensor([[1, 0]]),
        advantages=torch.full((1, 2), advantage),
        behaviour_logps=torch.tensor([[behaviour - 1.0, -math.inf]]),
        proximal_logps=None if start is None else torch.tensor([[start - 1.0, -math.inf]]),
        max_length=1,
    )


@pytest.mark.parametrize(
    ("options", "batch", "loss", "slope"),
    [
        ("", dict(now=0, start=None, behaviour=0, advantage=2), -2.0, -2.0),  # on policy: the policy gradient
        ("", dict(now=0, start=None, behaviour=-LN2, advantage=1), -2.0, -2.0),  # twice as likely as when sampled
        ("", dict(now=0, start=None, behaviour=-3, advantage=1), -5.0, -5.0),  # e^3 = 20 is capped
        ("(max_weight=1.5)", dict(now=0, start=None, behaviour=-LN2, advantage=1), -1.5, -1.5),
        ("", dict(now=LN2, start=0, behaviour=-LN2, advantage=1), -2.4, 0.0),  # u = 2 is clipped, w = 2 stays
        ("", dict(now=-LN2, start=0, behaviour=0, advantage=1), -0.5, -0.5),  # a loss is taken back without a clip
        ("(proximal='interpolated')", dict(now=2 * LN2, start=None, behaviour=0, advantage=1), -2.4, 0.0),  # w = u = 2
        ("(proximal='interpolated', share=1.0)", dict(now=LN2, start=None, behaviour=0, advantage=1), -2.0, -2.0),
    ],
)
def test_a_tokens_loss_by_hand(options, batch, loss, slope):
    tokens = one_token(**batch)
    losses = make_objective("decoupled_ppo" + options)(tokens)
    assert losses.tolist() == [pytest.approx(loss)]
    (gradient,) = torch.autograd.grad(losses.sum(), tokens.logps)
    assert gradient.tolist() == [[pytest.approx(slope), 0.0]]


def test_on_policy_its_gradient_is_that_of_reinforce(logits):
    losses = [make_objective(name)(batch_of(logits)).sum() for name in ("decoupled_ppo", "reinforce")]
    gradients = [torch.autograd.grad(loss, logits, retain_graph=True)[0] for loss in losses]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("iterations", [1, 2])
def test_the_proximal_policy_is_the_model_at_the_start_of_the_update(tokenizer, tmp_path, iterations):
    """With one iteration it is the pass of the loss itself; with several, one before the first of them."""
    trainer = trainer_of(tokenizer, tmp_path, num_iterations=iterations)
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows())
    assert torch.equal(batch["old_per_token_logps"], torch.nan_to_num(batch["sampling_per_token_logps"]))
    if iterations == 1:
        assert "proximal_logps" not in batch
        return
    ids, mask = (torch.cat([batch[f"prompt_{kind}"], batch[f"completion_{kind}"]], 1) for kind in ("ids", "mask"))
    width = batch["completion_ids"].shape[1]
    now = trainer._get_per_token_logps_and_entropies(trainer.model, ids, mask, width)[0]
    own = (batch["completion_mask"] * batch["tool_mask"]).bool()
    torch.testing.assert_close(batch["proximal_logps"][own], now[own])


def test_with_decoupled_ppo_old_turns_are_masked_and_not_weighed_a_second_time():
    chosen = TrainSection(estimator="rloo", staleness=2, objective="decoupled_ppo").make_estimator()
    assert chosen.name == "rloo | off_policy"
    assert "log_ratios" not in chosen.requires
    assert "versions" in chosen.requires


def test_an_objective_of_another_package_says_which_estimator_it_takes_and_what_it_corrects(monkeypatch):
    """The recipe knows no objective by its name."""

    @define_loss(LossRequirements(estimator="opo", corrects_old_policies=True))
    def invented(tokens):
        return tokens.per_row(tokens.logps)

    monkeypatch.setitem(registry._registered["objectives"], "invented", invented)
    assert TrainSection(objective="invented").estimator == "opo"
    assert TrainSection(objective="invented", estimator="rloo").estimator == "rloo"
    assert "log_ratios" not in TrainSection(objective="invented()", staleness=2).make_estimator().requires
    assert "log_ratios" in TrainSection(objective="reinforce", staleness=2).make_estimator().requires
