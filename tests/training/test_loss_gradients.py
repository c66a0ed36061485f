"""Every registered objective and loss term: exact gradients, none on what the agent did not write, none at weight 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_trainers import LOSSES, rows, trainer_of
from token_batches import batch_of

from agentgym import Schedule, registry
from agentgym.testing.exact.problems import Problem, stop_or_go
from agentgym.testing.exact.signals import PROBLEMS
from agentgym.training.loss.policy_loss import LossPart
from agentgym.training.objectives import TokenBatch
from agentgym.training.objectives.contract import TrlLoss, losses_by_row, make_objective, make_term, needs_of

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")

OBJECTIVES = [name for name in registry.names("objectives") if not isinstance(make_objective(name), TrlLoss)]
TERMS = registry.names("loss_terms")
BAND = {"low": 1.2, "high": 1.4}
"""Within which no turn of the batch below has its entropy."""
OPTIONS = {"entropy_band": BAND, "expert_sft": {"phi": False}}


def everything(values: torch.Tensor, **changes: Any) -> TokenBatch:
    """Two episodes with all that any objective or term reads; the behaviour is near, so that no ratio is clipped."""
    tokens = batch_of(values)
    fixed = tokens.logps.detach()
    given = {
        "behaviour_logps": fixed - torch.tensor([[0.05, -0.1, 0.1, 0.0], [0.1, 0.0, -0.05, 0.1]]),
        "reference_logps": fixed - 0.3,
        "inputs": {
            "optimal_values": torch.tensor([0.4, 0.4], dtype=values.dtype),
            "teacher": fixed + torch.tensor([0.4, -0.2, 0.3, 0.1]),
        },
        "expert_returns": torch.tensor([0.5, 0.5], dtype=values.dtype),
        "mean_length": 3.0,
        "help_removed": torch.tensor([True, False]),
    }
    return replace(tokens, **{**given, **changes})


def term(name: str, weight: float = 1.0, schedule: Schedule | None = None, warmup: float = 0.0) -> Any:
    return make_term(name, weight, schedule, BAND if name == "entropy_band" else {}, warmup=warmup)


def rows_of(name: str) -> list[str]:
    losses = make_objective(name) if name in OBJECTIVES else term(name).row_losses
    return list(needs_of(losses).rows)


@pytest.mark.parametrize("name", [*OBJECTIVES, *TERMS])
def test_tokens_that_the_agent_did_not_write_have_exactly_no_gradient(logits, name):
    for kind in rows_of(name):
        tokens = everything(logits, rows=kind)
        losses = (make_objective(name) if name in OBJECTIVES else term(name).row_losses)(tokens)
        (gradient,) = torch.autograd.grad(losses.sum(), logits)
        assert (gradient[tokens.own == 0] == 0).all()
        assert gradient[tokens.own == 1].abs().sum() > 0


@pytest.mark.parametrize("loss_type", LOSSES)
def test_no_loss_of_trl_has_a_gradient_at_a_result_or_in_a_failed_episode(tokenizer, tmp_path, loss_type):
    """At the last hidden states, from which each next token is predicted."""
    trainer = trainer_of(tokenizer, tmp_path, loss_type=loss_type)
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows())
    states: list[torch.Tensor] = []

    def keep(_: Any, __: Any, outputs: Any) -> None:
        outputs.last_hidden_state.retain_grad()
        states.append(outputs.last_hidden_state)

    trainer.model.base_model.register_forward_hook(keep)
    trainer._part_loss(trainer.model, LossPart(batch, 1.0, 1.0), [], []).backward()
    [state] = states
    assert state.grad is not None
    before = batch["prompt_ids"].shape[1] - 1
    moved = state.grad[:, before : before + batch["completion_ids"].shape[1]].abs().sum(-1) > 0
    own = (batch["completion_mask"] * batch["tool_mask"]).bool()
    assert moved.any()
    assert not (moved & ~own).any()
    assert (state.grad[:, :before] == 0).all()


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name not in ("topr", "gspo", "luspo")])
def test_an_objective_has_the_gradient_of_finite_differences(logits, name):
    """Off policy, where the ratios are not 1. `topr`, whose weight is held fixed, is enumerated below; `gspo` and
    `luspo`, whose gradient is by design another than that of their value, stand in test_policy_gradient.

    By default `nft` raises an argument to a floor and keeps its gradient; without the floor nothing is raised.
    """
    fixed = everything(logits)
    names = ("behaviour_logps", "reference_logps")
    given = {key: getattr(fixed, key) for key in names} | {"proximal_logps": fixed.logps.detach() - 0.02}
    objective = make_objective("nft(floor=0.0)" if name == "nft" else name)
    for kind in rows_of(name):
        assert torch.autograd.gradcheck(lambda z, r=kind: objective(everything(z, rows=r, **given)).sum(), logits)


@pytest.mark.parametrize("name", TERMS)
def test_a_term_has_the_gradient_of_finite_differences(logits, name):
    """`expert_sft` without its weight of tokens, which is held fixed."""
    fixed = everything(logits)
    given = {key: getattr(fixed, key) for key in ("reference_logps", "inputs", "behaviour_logps")}
    losses = make_term(name, 1.0, None, OPTIONS.get(name, {})).row_losses
    for kind in rows_of(name):
        assert torch.autograd.gradcheck(lambda z, r=kind: losses(everything(z, rows=r, **given)).sum(), logits)


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("off", [{"weight": 0.0}, {"schedule": Schedule(0.0, 1.0)}, {"warmup": 0.5}])
def test_a_term_whose_weight_is_0_or_whose_phase_has_not_begun_changes_no_bit(logits, name, off):
    objective = make_objective("topr")
    alone, beside = (
        losses_by_row(everything(logits), objective, terms, kl=0.0, progress=0.0)[0]
        for terms in ([], [term(name, **off)])
    )
    assert torch.equal(alone, beside)
    assert torch.equal(*(torch.autograd.grad(losses.sum(), logits, retain_graph=True)[0] for losses in (alone, beside)))


@pytest.mark.parametrize("name", ["reinforce", "topr", "nft"])
def test_a_reference_or_a_teacher_that_is_the_policy_changes_no_bit(logits, name):
    same = batch_of(logits).logps.detach()
    tokens = everything(logits, reference_logps=same, inputs={"teacher": same})
    terms = [term("reference_kl"), term("teacher_kl")]
    alone, beside = (
        losses_by_row(tokens, make_objective(name), added, kl=kl, progress=0.5)[0]
        for added, kl in (([], 0.0), (terms, 0.5))
    )
    assert torch.equal(alone, beside)
    assert torch.equal(*(torch.autograd.grad(losses.sum(), logits, retain_graph=True)[0] for losses in (alone, beside)))


def enumerated(problem: Problem, theta: torch.Tensor, sampled_by: Problem) -> TokenBatch:
    """All paths of a problem, each turn one token whose log-probability has the gradient that the problem gives."""
    length = max(len(path.steps) for path in problem.paths)
    scores, own, returns, gaps = [], [], [], []
    for path, other in zip(problem.paths, sampled_by.paths, strict=True):
        padding = length - len(path.steps)
        scores.append(np.pad(path.score, ((0, padding), (0, 0))))
        own.append([1] * len(path.steps) + [0] * padding)
        returns.append(path.return_from(0))
        gaps.append(np.log(path.probability / other.probability) / len(path.steps))
    count, mask = len(own), torch.tensor(own)
    logps = torch.from_numpy(np.array(scores)) @ theta
    episode_returns = torch.tensor(returns, dtype=torch.float64)
    return TokenBatch(
        logps=logps,
        entropies=torch.zeros_like(logps),
        own=mask,
        advantages=episode_returns[:, None].expand_as(logps),
        behaviour_logps=logps.detach() - torch.tensor(gaps)[:, None],
        reference_logps=None,
        turns=torch.where(mask == 1, torch.arange(length).expand(count, -1), -1),
        returns=episode_returns,
        max_length=1,
        groups=torch.arange(count),
        group_returns=episode_returns[:, None],
        group_successes=episode_returns[:, None],
    )


def expected_gradient(name: str, problem: Problem, sampled_by: Problem | None = None, shift: float = 0.0) -> np.ndarray:
    """Minus the gradient of an objective's mean over the episodes of the policy that sampled, as an exact sum."""
    sampled_by = sampled_by or problem
    theta = torch.zeros(problem.paths[0].score.shape[1], dtype=torch.float64, requires_grad=True)
    tokens = enumerated(problem, theta, sampled_by)
    tokens = replace(tokens, advantages=tokens.advantages - shift)
    chances = torch.tensor([path.probability for path in sampled_by.paths], dtype=torch.float64)
    (gradient,) = torch.autograd.grad((chances * make_objective(name)(tokens)).sum(), theta)
    return -gradient.numpy()


@pytest.mark.parametrize("name", ["reinforce", "topr", "ppo", "decoupled_ppo", "stable_reinforce"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_on_policy_the_expected_gradient_is_the_true_one_on_every_problem_that_can_be_enumerated(name, problem):
    np.testing.assert_allclose(
        expected_gradient(name, PROBLEMS[problem]), PROBLEMS[problem].true_gradient(), atol=1e-12
    )


def test_the_weights_of_topr_make_the_failures_of_another_policy_count_as_those_of_this_one():
    """Every return less 3 is a failure, and E under mu of pi/mu (R - 3) grad log pi is the gradient of E under pi."""
    problem, behaviour = stop_or_go(), stop_or_go(go=(0.5, 0.5, 0.5))
    weighted = expected_gradient("topr(max_ratio=1e9)", problem, behaviour, shift=3.0)
    np.testing.assert_allclose(weighted, problem.true_gradient(), atol=1e-12)
    unweighted = expected_gradient("reinforce", problem, behaviour, shift=3.0)
    assert np.abs(unweighted - problem.true_gradient()).max() > 0.1
