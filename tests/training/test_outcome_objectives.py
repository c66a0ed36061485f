"""Objectives that read the outcomes of a group, or a reference: values by hand, exact gradients, equalities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from tiny_trainers import gradients, rows, trainer_of
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from agentgym.errors import CreditError
from agentgym.training.objectives import TokenBatch
from agentgym.training.objectives.contract import make_objective
from agentgym.training.objectives.grouped import linearised, losses_of_groups
from agentgym.training.processes import Processes

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
NAN = float("nan")


def group_of(logps: torch.Tensor, successes: list[float], *, behaviour: torch.Tensor | None = None) -> TokenBatch:
    """One group whose episodes have one own token for each column; a success of NaN marks a failed episode."""
    outcome = torch.tensor(successes, dtype=logps.dtype)
    own = (~outcome.isnan()).long()[:, None].repeat(1, logps.shape[1])
    return TokenBatch(
        logps=logps,
        entropies=torch.zeros_like(logps),
        own=own,
        advantages=torch.zeros_like(logps),
        behaviour_logps=logps.detach() if behaviour is None else behaviour,
        reference_logps=None,
        turns=own - 1,
        returns=outcome,
        max_length=1,
        groups=torch.zeros(len(successes), dtype=torch.long),
        group_returns=outcome.expand(len(successes), -1),
        group_successes=outcome.expand(len(successes), -1),
        outcomes={"success": outcome},
    )


def policy(parameters: torch.Tensor, tokens: list[list[int]]) -> torch.Tensor:
    """Log-probabilities of tokens under a softmax over ten words, the same at every position."""
    return parameters.log_softmax(0)[torch.tensor(tokens)]


@pytest.fixture
def parameters() -> torch.Tensor:
    torch.manual_seed(1)
    return torch.randn(10, dtype=torch.float64, requires_grad=True)


EPISODES = [[0, 1, 2], [3, 4, 0], [5, 5, 6], [7, 8, 9]]


def test_nft_on_policy_has_the_gradient_of_grpo(tokenizer, tmp_path):
    """The deviations are those of the successes, ddof 0; the failed episode of the first group is left out."""
    trainer = trainer_of(tokenizer, tmp_path)
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows())
    del batch["old_per_token_logps"], batch["sampling_per_token_logps"]
    rates = batch["group_successes"].nanmean(1)
    assert rates.tolist() == pytest.approx([1 / 2] * 3 + [1 / 3] * 3)
    scores = (batch["outcome/success"].nan_to_num() - rates) / (rates * (1 - rates)).sqrt()
    batch["advantages"] = scores[:, None].expand_as(batch["advantages"])
    trainer._objective = make_objective("reinforce")
    expected = gradients(trainer, batch)
    trainer._objective = make_objective("nft")
    ours = gradients(trainer, batch)
    for name in expected.keys() - {"loss"}:
        torch.testing.assert_close(ours[name], expected[name], rtol=1e-5, atol=1e-6)


def test_nft_off_policy_by_hand(parameters):
    """q = 1/4. The success, at R = 2, gives log 2. A failure at R = 1/2 gives log((1 - 1/8) / (3/4))."""
    behaviour = torch.log(torch.tensor([[0.25], [0.5], [0.5], [0.5]], dtype=torch.float64))
    logps = torch.log(torch.tensor([[0.5], [0.25], [0.5], [0.5]], dtype=torch.float64))
    tokens = group_of(logps, [1.0, 0.0, 0.0, 0.0], behaviour=behaviour)
    losses = make_objective("nft(weigh='none', floor=0.0)")(tokens)
    assert losses.tolist() == pytest.approx([-0.693147, -0.154151, 0.0, 0.0], abs=1e-6)
    raised = make_objective("nft(weigh='none')")(replace(tokens, logps=logps + 1.0))
    assert raised[1:].tolist() == pytest.approx([0.0, 0.0, 0.0])  # below 1 the argument counts as 1
    assert make_objective("nft")(group_of(logps, [1.0] * 4, behaviour=behaviour)).abs().sum() == 0


@pytest.mark.parametrize("text", ["pacs(beta=0.7)", "pacs(score='likelihood', balance=True)", "pairwise_ppo"])
def test_an_objective_of_a_group_has_the_gradient_of_finite_differences(parameters, text):
    objective = make_objective(text)
    behaviour = policy(parameters, EPISODES).detach() + 0.05
    behaviour[0] -= 0.02  # the ratios of pairs differ from 1 without being clipped

    def loss(values: torch.Tensor) -> torch.Tensor:
        return objective(group_of(policy(values, EPISODES), [1.0, 0.0, NAN, 0.0], behaviour=behaviour)).sum()

    assert torch.autograd.gradcheck(loss, parameters)
    assert float(loss(parameters).detach()) != 0


@pytest.mark.parametrize("text", ["pacs", "pairwise_ppo"])
def test_rows_one_by_one_add_up_to_the_gradient_of_whole_groups(parameters, text):
    objective = make_objective(text)
    behaviour = policy(parameters, EPISODES).detach() + 0.1
    tokens = group_of(policy(parameters, EPISODES), [1.0, 0.0, 0.5, NAN], behaviour=behaviour)
    at_once = objective(tokens)
    losses, slopes = losses_of_groups(objective, tokens)
    by_row = linearised(losses, slopes)(tokens)
    torch.testing.assert_close(by_row, at_once, rtol=0, atol=1e-12)
    expected, got = (torch.autograd.grad(each.sum(), parameters, retain_graph=True)[0] for each in (at_once, by_row))
    torch.testing.assert_close(got, expected, rtol=1e-10, atol=1e-12)
    assert expected.abs().sum() > 0


@dataclass(frozen=True)
class OneOfTwo(Processes):
    """A process that is given what both have."""

    batches: tuple[TokenBatch, ...] = ()

    def gather(self, value: Any) -> list[Any]:
        return list(self.batches)


def test_a_group_may_be_spread_over_processes_whose_rows_are_padded_to_other_widths(parameters):
    objective = make_objective("pacs")
    behaviour = policy(parameters, EPISODES).detach() + 0.1
    tokens = group_of(policy(parameters, EPISODES).detach(), [1.0, 0.0, 0.5, NAN], behaviour=behaviour)
    tokens.own[2:, 2] = 0
    losses, slopes = losses_of_groups(objective, tokens)
    first, second = tokens.select(slice(0, 2)), tokens.select(slice(2, 4))
    narrow = ("logps", "entropies", "own", "advantages", "behaviour_logps", "turns")
    second = replace(second, **{name: getattr(second, name)[:, :2] for name in narrow})
    for rank, own in enumerate((first, second)):
        part_losses, part_slopes = losses_of_groups(objective, own, OneOfTwo(rank, 2, (first, second)))
        rows = slice(2 * rank, 2 * rank + 2)
        torch.testing.assert_close(part_losses, losses[rows])
        torch.testing.assert_close(part_slopes, slopes[rows, : part_slopes.shape[1]])
    assert slopes[2, :2].abs().sum() > 0


def test_pacs_by_hand(parameters):
    """Log-ratios 0.3, -0.1, 0.2: the first logit is 0.3 - 0.05. The failed episode has no share in any."""
    behaviour = policy(parameters, EPISODES).detach()
    log_ratios = torch.tensor([0.3, -0.1, 0.2, 9.0], dtype=torch.float64)
    tokens = group_of(behaviour + log_ratios[:, None] / 3, [1.0, 0.0, 0.0, NAN], behaviour=behaviour)
    logits = torch.tensor([0.25, -0.35, 0.1], dtype=torch.float64)
    labels = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    expected = binary_cross_entropy_with_logits(logits, labels, reduction="none")
    torch.testing.assert_close(make_objective("pacs")(tokens)[:3], expected)
    assert make_objective("pacs")(tokens)[3] == 0
    weights = torch.tensor([1.5, 0.75, 0.75], dtype=torch.float64)
    torch.testing.assert_close(make_objective("pacs(balance=True)")(tokens)[:3], weights * expected)
    assert make_objective("pacs")(group_of(behaviour, [1.0, NAN, NAN, NAN])).abs().sum() == 0


def test_pairwise_ppo_compares_pairs_and_nothing_else(parameters):
    logps = policy(parameters, EPISODES)
    objective = make_objective("pairwise_ppo")
    tokens = group_of(logps, [1.0, 0.5, 0.0, NAN])
    losses = objective(tokens)
    assert losses.tolist() == pytest.approx([-(0.25 + 0.5) / 2, -0.25 / 2, 0.0, 0.0])
    shifted = replace(tokens, outcomes={"success": tokens.outcomes["success"] - 0.5})
    torch.testing.assert_close(objective(shifted), losses, rtol=0, atol=0)
    (gradient,) = torch.autograd.grad(losses.sum(), logps)
    assert gradient[:, 0].tolist() == pytest.approx([-0.375, 0.0, 0.375, 0.0])  # no clip at a ratio of 1
    far = replace(tokens, behaviour_logps=logps.detach() - torch.tensor([[1.0], [0.0], [-1.0], [0.0]]))
    (clipped,) = torch.autograd.grad(objective(far).sum(), logps)
    assert clipped.abs().sum() == 0


def test_stable_reinforce_is_ppo_until_a_bound_is_passed(parameters):
    behaviour = policy(parameters, EPISODES).detach()
    near = group_of(policy(parameters, EPISODES), [1.0] * 4, behaviour=behaviour - 0.1)
    near = replace(near, advantages=torch.tensor([[3.0], [-3.0], [0.5], [-0.5]]).expand(4, 3))
    stable, ppo = make_objective("stable_reinforce"), make_objective("ppo")
    torch.testing.assert_close(stable(near), ppo(near), rtol=0, atol=0)
    outliers = replace(near, advantages=near.advantages * 1.1)
    assert (stable(outliers)[:2] == 0).all()
    torch.testing.assert_close(stable(outliers)[2:], ppo(outliers)[2:], rtol=0, atol=0)
    far = replace(near, behaviour_logps=behaviour - 1000.0)
    assert torch.isinf(ppo(far)).any()
    assert torch.isfinite(stable(far)).all()
    assert float(stable(far)[1].detach()) == pytest.approx(3 * 3 * 1000)  # three tokens, an advantage of -3


def test_ppo_at_a_ratio_of_1_has_the_gradient_of_reinforce(parameters):
    tokens = group_of(policy(parameters, EPISODES), [1.0] * 4)
    tokens = replace(tokens, advantages=torch.randn(4, 3, dtype=torch.float64))
    of_each = [make_objective(name)(tokens).sum() for name in ("ppo", "reinforce")]
    gradients_of = [torch.autograd.grad(loss, parameters, retain_graph=True)[0] for loss in of_each]
    torch.testing.assert_close(*gradients_of)


def test_the_best_policy_near_the_reference_has_no_loss_under_apo(parameters):
    """Enumerated: pi* = pi_ref exp(R / beta) / Z over ten episodes of one token, and V* = beta log Z."""
    beta = 0.5
    reference = parameters.detach().log_softmax(0)
    returns = torch.linspace(0, 1, 10, dtype=torch.float64)
    value = beta * (reference + returns / beta).logsumexp(0)
    best = reference + returns / beta - value / beta

    def tokens_of(logps: torch.Tensor) -> TokenBatch:
        tokens = group_of(logps[:, None], returns.tolist())
        return replace(tokens, reference_logps=reference[:, None], inputs={"optimal_values": value.expand(10)})

    assert float(make_objective("apo(beta=0.5)")(tokens_of(best)).abs().max()) < 1e-20
    assert float(make_objective("apo(beta=0.5)")(tokens_of(reference)).min()) > 0
    assert torch.autograd.gradcheck(
        lambda values: make_objective("apo(beta=0.5)")(tokens_of(values.log_softmax(0))).sum(), parameters
    )
    with pytest.raises(CreditError, match="reads a reference model, and there is none"):
        make_objective("apo")(replace(tokens_of(best), reference_logps=None))


def test_on_the_flip_problem_apo_comes_to_the_best_policy_near_the_reference():
    """Of three courses (answer; search and answer; search twice) with the mean returns 0.5, 0.4 and 0.9."""
    beta, objective = 0.5, make_objective("apo(beta=0.5)")
    returns = torch.tensor([0.5, 0.4, 0.9], dtype=torch.float64)
    reference = torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64).log()
    value = beta * (reference + returns / beta).logsumexp(0)
    best = reference + (returns - value) / beta
    theta = torch.zeros(2, dtype=torch.float64, requires_grad=True)  # the logits of a first and of a second search
    optimiser = torch.optim.Adam([theta], lr=0.05)

    def policy() -> torch.Tensor:
        answer, search = logsigmoid(-theta), logsigmoid(theta)
        return torch.stack([answer[0], search[0] + answer[1], search.sum()])

    assert float((policy().exp() * (policy() - best)).sum().detach()) > 0.05
    for _ in range(200):
        tokens = group_of(policy()[:, None], returns.tolist())
        tokens = replace(tokens, reference_logps=reference[:, None], inputs={"optimal_values": value.expand(3)})
        optimiser.zero_grad()
        (reference.exp() * objective(tokens)).sum().backward()
        optimiser.step()
    assert float((policy().exp() * (policy() - best)).sum().detach()) < 1e-3


def test_grao_weighs_the_policys_episodes_and_the_experts_by_the_same_group():
    """Returns 1, 0, 0 and the expert's 1: mean 1/2, deviation 1/2, so A = 1, -1, -1 and 1. Mean of A_i: -1/3."""
    logps = torch.full((3, 2), -1.0, dtype=torch.float64)
    expert_return = torch.ones(3, dtype=torch.float64)
    own = replace(group_of(logps, [1.0, 0.0, 0.0]), expert_returns=expert_return)
    grao = make_objective("grao(imitation=0.5, alignment=0.6)")
    assert grao(own).tolist() == pytest.approx([1.6 * 2, -1.6 * 2, -1.6 * 2], rel=1e-4)
    of_expert = grao(replace(own, rows="experts"))
    assert of_expert.tolist() == pytest.approx([(0.5 + 0.6 / 3) * 2] * 3, rel=1e-4)
    alone = make_objective("grao(imitation=0.0, alignment=0.0)")(replace(own, expert_returns=None))
    third = 2**0.5 / 3  # the deviation of 1, 0, 0
    assert alone.tolist() == pytest.approx([2 / 3 / third * 2, -1 / 3 / third * 2, -1 / 3 / third * 2], rel=1e-4)


def test_an_outcome_that_no_reward_gives_is_named():
    tokens = replace(group_of(torch.zeros(2, 1), [1.0, 0.0]), outcomes={"score": torch.ones(2)})
    with pytest.raises(CreditError, match=r"No episode has the outcome component 'success'.* components are: score"):
        make_objective("nft")(tokens)
