"""Objectives and loss terms: their values and gradients, in parts and at once, and how a recipe names them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from tiny_trainers import LOSSES, gradients, rows, trainer_of
from token_batches import batch_of

from agentgym import Schedule, registry
from agentgym.credit import estimator
from agentgym.errors import CreditError, RecipeError, ShapeError, UnknownNameError
from agentgym.training import Recipe
from agentgym.training.checks.preflight import check_before_start
from agentgym.training.loss.grpo_batches import input_column
from agentgym.training.model.grpo_config import grpo_config
from agentgym.training.objectives.contract import TrlLoss, losses_by_row, make_objective, make_term
from agentgym.training.processes import Processes
from agentgym.training.recipe.episode_section import EpisodeSection
from agentgym.training.recipe.hardware_section import HardwareSection
from agentgym.training.recipe.train_section import TrainSection

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")


def test_losses_of_trl_are_named_as_trl_names_them():
    assert sorted(n for n in registry.names("objectives") if isinstance(make_objective(n), TrlLoss)) == sorted(LOSSES)
    assert make_objective("dapo").loss_type == "dapo"


@pytest.mark.parametrize(
    ("name", "constants"),
    [("cispo", (0.2, 5.0)), ("dapo", (0.2, 0.28)), ("grpo", (0.2, None)), ("dapo, with its own", (0.1, 0.3))],
)
def test_a_loss_of_trl_has_the_constants_of_its_paper_unless_the_recipe_names_others(tmp_path, name, constants):
    given = {"trl": {"epsilon": 0.1, "epsilon_high": 0.3}} if "," in name else {}
    section = TrainSection.model_validate({"objective": name.partition(",")[0], **given})
    args = grpo_config(section, EpisodeSection(), HardwareSection(), tmp_path, "cpu", Processes(), seed=0)
    assert (args.epsilon, args.epsilon_high) == constants


def test_reinforce_is_the_policy_gradient(logits):
    tokens = batch_of(logits)
    losses = make_objective("reinforce")(tokens)
    expected = -(tokens.own * tokens.advantages * tokens.logps).sum(1) / 8
    torch.testing.assert_close(losses, expected)
    assert losses.shape == (2,)


def test_topr_on_policy_is_reinforce(logits):
    losses = [make_objective(name)(batch_of(logits)).sum() for name in ("topr", "reinforce")]
    gradients = [torch.autograd.grad(loss, logits, retain_graph=True)[0] for loss in losses]
    torch.testing.assert_close(*gradients, rtol=0, atol=0)


def test_topr_tapers_only_what_is_discouraged(logits):
    # Episode 1 is e times, episode 0 is 1/e times as likely as when it was sampled.
    own = torch.tensor([[1, 1, 1, 0], [1, 0, 1, 1]])
    behaviour = logits.log_softmax(-1)[..., 0].detach() + own * torch.tensor([[1 / 3], [-1 / 3]])
    tokens = batch_of(logits, behaviour=behaviour)
    expected = -tokens.advantages * tokens.logps * tokens.own / 8
    torch.testing.assert_close(make_objective("topr")(tokens), expected.sum(1))  # e is clipped to 1
    weighted = expected.clone()
    weighted[1, 0] *= math.e
    torch.testing.assert_close(make_objective("topr(max_ratio=9.0)")(tokens), weighted.sum(1))
    tokens.advantages[0] = -1.5
    torch.testing.assert_close(make_objective("topr")(tokens)[0], -expected.sum(1)[0] / math.e)


def test_topr_of_successes_alone_is_imitation_however_old_they_are(logits):
    tokens = batch_of(logits, behaviour=logits.log_softmax(-1)[..., 0].detach() + 1.0)
    tokens.advantages.abs_()
    losses = [make_objective(name)(tokens).sum() for name in ("topr", "reinforce")]
    assert losses[0] == losses[1]
    gradients = [torch.autograd.grad(loss, logits, retain_graph=True)[0] for loss in losses]
    torch.testing.assert_close(*gradients, rtol=0, atol=0)


def test_critique_grpo_shapes_the_ratio_of_refinements_alone(logits):
    """f(p) = p / (p + 0.1) by hand in the first row, pi/mu in the second; without help it is REINFORCE on policy."""
    tokens = replace(batch_of(logits), help_removed=torch.tensor([True, False]))
    losses = make_objective("critique_grpo")(tokens)
    p = tokens.logps.exp()
    weights = torch.stack([p[0] / (p[0] + 0.1), (tokens.logps[1] - tokens.behaviour_logps[1]).exp()])
    torch.testing.assert_close(losses, -(weights * tokens.advantages * tokens.own).sum(1) / 8)
    (gradient,) = torch.autograd.grad(losses[0], tokens.logps, retain_graph=True)
    expected = -(0.1 * p / (p + 0.1) ** 2 * tokens.advantages * tokens.own)[0] / 8
    torch.testing.assert_close(gradient[0], expected)
    wide = make_objective("critique_grpo(gamma=1.0)")(tokens)
    assert wide[1] == losses[1]
    torch.testing.assert_close(wide[0], -(p / (p + 1) * tokens.advantages * tokens.own)[0].sum() / 8)
    losses = [make_objective(name)(batch_of(logits)).sum() for name in ("critique_grpo", "reinforce")]
    gradients = [torch.autograd.grad(loss, logits, retain_graph=True)[0] for loss in losses]
    torch.testing.assert_close(*gradients)


def test_the_entropy_bonus_raises_the_entropy_of_own_tokens_alone(logits):
    tokens = batch_of(logits)
    (gradient,) = torch.autograd.grad(make_term("entropy_bonus", 1.0, None, {}).row_losses(tokens).sum(), logits)
    after = batch_of((logits - 0.1 * gradient).detach())
    assert ((after.entropies > tokens.entropies) == tokens.own.bool()).all()
    assert (gradient[tokens.own == 0] == 0).all()


def test_the_entropy_band_pushes_from_outside_and_not_inside(logits):
    sharpness = torch.tensor([3.0, 1.0, 0.3, 0.3])  # a sure turn, and an unsure one
    logits = (logits * sharpness[:, None]).detach().requires_grad_()
    entropies = batch_of(logits).entropies[1].detach()
    first, second = entropies[0], entropies[2:].mean()
    low, high = sorted(float(mean) for mean in (first, second))

    def penalty(values: torch.Tensor, **options: float) -> torch.Tensor:
        return make_term("entropy_band", 1.0, None, options).row_losses(batch_of(values))[1]

    assert float(penalty(logits, low=low - 0.01, high=high + 0.01).detach()) == 0.0
    assert float(penalty(logits, low=low + 0.1).detach()) == pytest.approx(0.1**2 / 2)
    assert float(penalty(logits, high=high - 0.1).detach()) == pytest.approx(0.1**2 / 2)
    assert torch.autograd.gradcheck(lambda values: penalty(values, low=low + 0.1, high=high - 0.05), logits)
    (inside,) = torch.autograd.grad(penalty(logits, low=low - 0.01, high=high + 0.01), logits)
    assert (inside == 0).all()


def test_terms_and_the_distance_from_the_reference_are_weighted(logits):
    tokens = batch_of(logits)
    bonus = make_term("entropy_bonus", 0.5, Schedule(1.0, 0.0), {})
    losses, metrics = losses_by_row(tokens, make_objective("reinforce"), [bonus], kl=0.1, progress=0.75)
    k3 = (math.exp(-0.3) - 1 + 0.3) * tokens.own.sum(1) / 8
    expected = make_objective("reinforce")(tokens) + 0.1 * k3 + 0.5 * 0.25 * bonus.row_losses(tokens)
    torch.testing.assert_close(losses, expected)
    assert metrics["loss/reference_kl"] == pytest.approx(float(k3.mean()))
    assert {"loss/objective", "loss/entropy_bonus", "entropy"} < set(metrics)


def test_a_term_in_the_place_of_the_objective_takes_its_share_of_the_kl_too(logits):
    tokens, imitation = batch_of(logits), make_term("expert_sft", 0.75, None, {})
    alone = losses_by_row(tokens, make_objective("reinforce"), [], kl=0.1, progress=0.0)[0]
    beside = losses_by_row(tokens, make_objective("reinforce"), [imitation], kl=0.1, progress=0.0)[0]
    torch.testing.assert_close(beside, 0.25 * alone)


@pytest.mark.parametrize("on_policy", [True, False])
def test_the_kl_is_that_of_the_policy_to_the_reference(on_policy):
    """Summed over all words of a vocabulary by the chances of who sampled: value and gradient are those of the KL."""
    torch.manual_seed(1)
    logits, others, behaviour = torch.randn(3, 7, dtype=torch.float64)
    logits.requires_grad_()
    policy, reference = logits.log_softmax(0), others.log_softmax(0)
    sampled = policy.detach() if on_policy else behaviour.log_softmax(0)
    tokens = replace(
        batch_of(torch.zeros(2, 4, 5, dtype=torch.float64)),
        logps=policy[:, None],
        reference_logps=reference[:, None],
        behaviour_logps=sampled[:, None],
        entropies=torch.zeros(7, 1),
        own=torch.ones(7, 1),
        turns=torch.zeros(7, 1, dtype=torch.long),
        returns=torch.zeros(7, dtype=torch.float64),
        max_length=1,
    )
    exact = (policy.exp() * (policy - reference)).sum()
    (gradient,) = torch.autograd.grad(exact, logits, retain_graph=True)
    beside_an_objective = losses_by_row(tokens, lambda batch: batch.returns * 0.0, [], kl=1.0, progress=0.0)[0]
    for estimate in (beside_an_objective, make_term("reference_kl", 1.0, None, {}).row_losses(tokens)):
        expected = (sampled.exp() * estimate).sum()
        torch.testing.assert_close(expected, exact, rtol=0, atol=1e-14)
        (of_estimate,) = torch.autograd.grad(expected, logits, retain_graph=True)
        torch.testing.assert_close(of_estimate, gradient, rtol=0, atol=1e-14)


@pytest.mark.parametrize(("name", "average"), [("gspo", "episode"), ("luspo", "none"), ("ppo", "constant")])
def test_the_kl_is_averaged_as_the_objective_averages_tokens(logits, name, average):
    tokens = batch_of(logits)
    alone, beside = (losses_by_row(tokens, make_objective(name), [], kl=kl, progress=0.0)[0] for kl in (0.0, 0.5))
    sums = (math.exp(-0.3) - 1 + 0.3) * tokens.own.sum(1)
    divisors = {"episode": tokens.own.sum(1), "none": 1, "constant": 8}
    torch.testing.assert_close(beside - alone, (0.5 * sums / divisors[average]).to(beside))


def test_gspo_without_differences_between_turns_has_the_gradient_of_the_ratio_of_the_episode(logits):
    """Of the paper's sequence form, within the bounds and with one episode outside of them."""
    behaviour = logits.log_softmax(-1)[..., 0].detach() - torch.tensor([[1e-4] * 4, [5e-4] * 4])
    tokens = replace(batch_of(logits, behaviour=behaviour), advantages=torch.ones(2, 4, dtype=torch.float64))
    lengths = tokens.own.sum(1)
    ratio = (tokens.row_log_ratios() / lengths).exp()
    by_episode = -torch.min(ratio, ratio.clamp(1 - 3e-4, 1 + 4e-4))
    for name, scale in (("gspo", torch.ones(2)), ("luspo(epsilon=3e-4, epsilon_high=4e-4)", lengths)):
        losses = make_objective(name)(tokens)
        torch.testing.assert_close(losses, by_episode * scale)
        gradients = [torch.autograd.grad(x.sum(), logits, retain_graph=True)[0] for x in (losses, by_episode * scale)]
        torch.testing.assert_close(*gradients)
        assert not gradients[0][1].any()


def test_a_loss_that_is_not_one_for_each_episode_is_refused(logits):
    with pytest.raises(ShapeError, match=r"objective returned losses of shape \(\), .* each of the 2 episodes"):
        losses_by_row(batch_of(logits), lambda tokens: tokens.logps.mean(), [], kl=0.0, progress=0.0)


@pytest.mark.parametrize("name", ["reinforce", "pacs"])
def test_a_batch_in_parts_with_terms_has_the_gradient_of_the_batch(tokenizer, tmp_path, name):
    trainer = trainer_of(tokenizer, tmp_path)
    trainer._objective = make_objective(name)
    trainer._terms = [make_term("entropy_bonus", 0.1, None, {}), make_term("entropy_band", 1.0, None, {"low": 9.0})]
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows())
    trainer._kl = 0.1
    batch["ref_per_token_logps"] = batch["old_per_token_logps"] - 0.3
    batch[input_column("optimal_values")] = torch.full((len(rows()),), 0.4)
    at_once = gradients(trainer, batch)
    trainer._microbatch_tokens = 40
    assert len(trainer._parts_of(batch)) > 2
    in_parts = gradients(trainer, batch)
    assert sum(float(value.abs().sum()) for value in at_once.values()) > 0
    for key, value in at_once.items():
        torch.testing.assert_close(in_parts[key], value, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("name", ["reinforce", "dr_grpo"])
def test_batches_whose_gradients_are_accumulated_count_as_one(tokenizer, tmp_path, name):
    """Of four batches each has a quarter of the gradient, whether the loss is an objective of ours or TRL's."""
    trainer = trainer_of(tokenizer, tmp_path, loss_type="dr_grpo")
    trainer._objective = None if name == "dr_grpo" else make_objective(name)
    trainer._terms = [make_term("entropy_bonus", 0.1, None, {})] if trainer._objective is not None else []
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows())
    trainer.current_gradient_accumulation_steps = 1
    alone = gradients(trainer, batch)
    trainer.current_gradient_accumulation_steps = 4
    quarter = gradients(trainer, batch)
    assert sum(float(value.abs().sum()) for value in alone.values()) > 0
    for key, value in alone.items():
        torch.testing.assert_close(4 * quarter[key], value, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("off", [{"weight": 0.0}, {"schedule": Schedule(0.0, 1.0)}, {"warmup": 0.5}], ids=str)
def test_a_term_that_does_not_count_yet_leaves_the_loss_of_trl_as_it_is(tokenizer, tmp_path, off):
    trainer = trainer_of(tokenizer, tmp_path)
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows())
    alone = gradients(trainer, batch)
    off = {"weight": 1.0, "schedule": None} | off
    trainer._terms = [make_term("entropy_bonus", options={}, **off)]
    beside = gradients(trainer, batch)
    for name, value in alone.items():
        torch.testing.assert_close(beside[name], value, rtol=0, atol=0)
    assert trainer._metrics["train"]["loss/entropy_bonus"][0] < 0


def test_every_token_knows_its_turn_and_every_row_its_return(tokenizer, tmp_path):
    trainer = trainer_of(tokenizer, tmp_path)
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows())
    own = (batch["completion_mask"] * batch["tool_mask"]).bool()
    for row, trajectory in enumerate(trainer._rollouts.trajectories):
        if not trajectory.valid:
            assert (batch["turn_of_token"][row] == -1).all()
            assert batch["episode_returns"][row].isnan()
            continue
        assert ((batch["turn_of_token"][row] >= 0) == own[row]).all()
        for index, (start, end) in enumerate(trajectory.turn_spans()):
            assert (batch["turn_of_token"][row, start:end] == index).all()
        total = trajectory.outcome["success"] + sum(turn.rewards["r"] for turn in trajectory.turns)
        assert float(batch["episode_returns"][row]) == pytest.approx(total)
    assert estimator("return_to_go").requires  # the rows above are those of a declared estimator


RECIPE = {
    "name": "objectives",
    "tasks": {"set": "text/countdown-v1"},
    "policy": {"tiny": {}},
    "train": {"steps": 1},
}


@pytest.mark.parametrize(
    ("train", "message"),
    [
        ({"objective": "tropr"}, r"train.objective = 'tropr' .*Did you mean 'topr'"),
        ({"objective": "topr(clip=1.0)"}, "has no option 'clip'.*It accepts max_ratio"),
        ({"objective": "topr(max_ratio=0)"}, "'max_ratio' of 'topr' is 0: expected"),
        ({"objective": "topr | gated"}, "topr cannot be wrapped"),
        ({"objective": "dr_grpo(epsilon=0.1)"}, "TRL computes this loss, so it takes no options"),
        ({"objective": "topr", "trl": {"epsilon": 0.1}}, "agentgym computes train.objective = 'topr'"),
        (
            {"objective": "gspo", "trl": {"epsilon": 0.1}},
            r"Write it as the objective's own option: 'gspo\(epsilon=0.1\)'",
        ),
        (
            {"objective": "dapo", "trl": {"importance_sampling_level": "sequence"}},
            "'dapo' with train.estimator = 'return_to_go' and .* credit by turn would be lost. Choose the objective",
        ),
        ({"terms": {"entropy": {}}}, "train.terms = 'entropy'.*Did you mean 'entropy_"),
        ({"terms": {"entropy_band": {"options": {"high": "x"}}}}, "'high' of 'entropy_band'"),
    ],
)
def test_a_wrong_objective_or_term_is_one_line_before_anything_starts(train, message):
    def check() -> None:
        recipe = Recipe.parse({**RECIPE, "train": {"steps": 1, **train}})
        check_before_start(recipe, recipe.tasks.load())

    with pytest.raises(RecipeError, match=message):
        check()


def test_names_that_are_not_registered_are_refused_by_the_library_too():
    with pytest.raises(UnknownNameError):
        make_objective("nothing_like_it")
    with pytest.raises(CreditError, match="loss term 'entropy_band' has no option 'hi'"):
        make_term("entropy_band", 1.0, None, {"hi": 1.0})
