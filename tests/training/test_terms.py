"""Loss terms: exact gradients, what they leave out, and what a weight of 0 or 1 makes of the loss."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_trainers import GROUP, Given, gradients, rows, trainer_of
from token_batches import batch_of

from agentgym import Schedule, Task, Trajectory
from agentgym.errors import CreditError
from agentgym.methods.loss_terms.entropy_band import PastEntropies
from agentgym.training import OtherRows, StepBatch, TrainingPart
from agentgym.training.experts import ExpertEpisodes, stored_experts
from agentgym.training.objectives import LossRequirements, TokenBatch, define_loss
from agentgym.training.objectives.contract import WeightedTerm, make_objective, make_term, objective_share
from agentgym.training.processes import ALONE

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")


def losses_of(name: str, tokens: TokenBatch, **options: Any) -> torch.Tensor:
    return make_term(name, 1.0, None, options).row_losses(tokens)


def test_the_gradient_of_teacher_kl_is_that_of_the_divergence_from_the_teacher():
    """Enumerated over ten words: the mean of grad R^2 / 2 under pi is grad KL(pi, teacher)."""
    torch.manual_seed(2)
    parameters = torch.randn(10, dtype=torch.float64, requires_grad=True)
    teacher = torch.randn(10, dtype=torch.float64).log_softmax(0)
    logps = parameters.log_softmax(0)
    (expected,) = torch.autograd.grad((logps.exp() * (logps - teacher)).sum(), parameters, retain_graph=True)
    tokens = replace(
        batch_of(torch.zeros(2, 4, 5, dtype=torch.float64)),
        logps=logps[:, None],
        own=torch.ones(10, 1),
        inputs={"teacher": teacher[:, None]},
        returns=torch.zeros(10),
        max_length=1,
    )
    by_word = losses_of("teacher_kl", tokens)
    (got,) = torch.autograd.grad((logps.detach().exp() * by_word).sum(), parameters, retain_graph=True)
    torch.testing.assert_close(got, expected)
    assert torch.autograd.gradcheck(
        lambda values: losses_of("teacher_kl", replace(tokens, logps=values.log_softmax(0)[:, None]), estimate="k3"),
        parameters,
    )


@pytest.mark.parametrize("estimate", ["k2", "k3"])
def test_a_teacher_that_agrees_gives_no_loss_and_no_gradient(logits, estimate):
    tokens = batch_of(logits)
    tokens = replace(tokens, inputs={"teacher": tokens.logps.detach()})
    losses = losses_of("teacher_kl", tokens, estimate=estimate)
    (gradient,) = torch.autograd.grad(losses.sum(), logits)
    assert (losses == 0).all()
    assert (gradient == 0).all()


def test_a_teacher_can_be_kept_to_failures_and_to_good_episodes(logits):
    tokens = batch_of(logits)
    tokens = replace(tokens, inputs={"teacher": tokens.logps.detach() + 1.0})
    everywhere = losses_of("teacher_kl", tokens)
    assert (everywhere > 0).all()
    assert (losses_of("teacher_kl", tokens, mask="response") == everywhere * torch.tensor([0, 1])).all()
    assert (losses_of("teacher_kl", tokens, mask="group") == 0).all()
    unsolved = replace(tokens, group_successes=tokens.group_successes * 0)
    assert (losses_of("teacher_kl", unsolved, mask="group") == everywhere).all()
    judged = replace(tokens, outcomes={"quality": torch.tensor([0.4, 0.9])})
    gated = losses_of("teacher_kl", judged, gate="quality", threshold=0.8)
    assert (gated == everywhere * torch.tensor([0, 1])).all()
    with pytest.raises(CreditError, match="needs the log-probabilities of a teacher"):
        losses_of("teacher_kl", batch_of(logits))


def test_reference_kl_weighs_turns_alike_and_later_ones_less(logits):
    tokens = batch_of(logits)
    gaps = torch.tensor([[0.1, 0.2, 0.3, 9.0], [0.5, 9.0, 0.7, 0.9]], dtype=torch.float64)
    tokens = replace(tokens, reference_logps=tokens.logps.detach() + gaps)
    kl = gaps.exp() - 1 - gaps
    first, second, third = kl[0, :3].mean(), kl[1, 0], kl[1, 2:].mean()
    torch.testing.assert_close(losses_of("reference_kl", tokens), torch.stack([first, (second + third) / 2]))
    decayed = losses_of("reference_kl", tokens, decay=0.5)
    torch.testing.assert_close(decayed, torch.stack([first, (second + third / 2) / 1.5]))
    same = replace(tokens, reference_logps=tokens.logps.detach())
    (gradient,) = torch.autograd.grad(losses_of("reference_kl", same).sum(), logits)
    assert (gradient == 0).all()
    fixed = {"reference_logps": tokens.reference_logps, "behaviour_logps": tokens.behaviour_logps}
    assert torch.autograd.gradcheck(
        lambda values: losses_of("reference_kl", replace(batch_of(values), **fixed)), logits
    )


def test_reference_kl_can_be_that_of_the_first_attempt_alone(logits):
    """Of two turns, the second is another attempt in one batch, and belongs to the only attempt in the other."""
    tokens = batch_of(logits)
    gaps = torch.tensor([[0.1, 0.2, 0.3, 9.0], [0.5, 9.0, 0.7, 0.9]], dtype=torch.float64)
    tokens = replace(tokens, reference_logps=tokens.logps.detach() + gaps)
    first_of_two = replace(tokens, first_attempt_turns=torch.tensor([1, 1]))
    losses = losses_of("reference_kl", first_of_two, first_attempt=True)
    kl = gaps.exp() - 1 - gaps
    torch.testing.assert_close(losses, torch.stack([kl[0, :3].mean(), kl[1, 0]]))
    (gradient,) = torch.autograd.grad(losses.sum(), logits, retain_graph=True)
    assert (gradient[1, 2:] == 0).all()
    assert (gradient[1, 0] != 0).any()
    only_one = replace(tokens, first_attempt_turns=torch.tensor([1, 2]))
    both = losses_of("reference_kl", only_one, first_attempt=True)
    assert torch.equal(both, losses_of("reference_kl", only_one))
    with pytest.raises(CreditError, match="needs `first_attempt_turns`"):
        losses_of("reference_kl", tokens, first_attempt=True)


def test_the_weight_of_a_token_of_an_expert_falls_where_the_policy_is_sure(logits):
    tokens = replace(batch_of(logits), rows="experts", mean_length=3.0)
    p = tokens.logps.detach().exp()
    expected = -(tokens.own * p * (1 - p) * tokens.logps).sum(1) / 3
    torch.testing.assert_close(losses_of("expert_sft", tokens), expected)
    plain = losses_of("expert_sft", tokens, phi=False)
    torch.testing.assert_close(plain, -(tokens.own * tokens.logps).sum(1) / 3)
    (gradient,) = torch.autograd.grad(losses_of("expert_sft", tokens, cutoff=float(p.min()) * 1.001).sum(), logits)
    assert int((gradient.abs().sum(-1) > 0).sum()) <= 1


def with_past(tokens: TokenBatch, usual: torch.Tensor) -> TokenBatch:
    """A batch of which the mean entropies of earlier steps are known, by turn index."""
    index = tokens.turns.clamp(min=0)
    return replace(tokens, inputs={"past_entropies": torch.where(tokens.turns < 0, math.nan, usual.detach()[index])})


def test_a_relative_band_follows_what_the_entropy_of_a_turn_was(logits):
    tokens = batch_of(logits)
    means, taken = tokens.turn_means(tokens.entropies)
    assert taken.tolist() == [[1, 0], [1, 1]]
    options = {"low": 0.8, "high": 1.2, "relative": True}
    assert (losses_of("entropy_band", tokens, **options) == 0).all()  # nothing is known of earlier steps
    usual = torch.stack([means[:, 0].mean(), means[1, 1] / 2])
    known = with_past(tokens, usual)
    expected = (means - 1.2 * usual).relu() ** 2 + (0.8 * usual - means).relu() ** 2
    torch.testing.assert_close(losses_of("entropy_band", known, **options), (expected * taken).sum(1) / taken.sum(1))
    assert float(losses_of("entropy_band", known, **options)[1].detach()) > 0

    def loss(values: torch.Tensor) -> torch.Tensor:
        return losses_of("entropy_band", with_past(batch_of(values), usual), **options)

    assert torch.autograd.gradcheck(loss, logits)
    first_only = with_past(tokens, torch.tensor([math.nan, math.nan], dtype=torch.float64))
    assert (losses_of("entropy_band", first_only, **options) == 0).all()


def test_the_history_of_entropies_counts_each_step_once_and_survives(logits, tmp_path):
    history, tokens = PastEntropies(), batch_of(logits)
    assert history.usual() is None
    means, _ = tokens.turn_means(tokens.entropies.detach())
    history.observe(tokens)
    history.end_batch(ALONE.gather)
    for _ in range(3):  # a step in parts
        history.observe(replace(tokens, entropies=tokens.entropies * 2))
    history.end_batch(ALONE.gather)
    expected = torch.tensor([float(means[:, 0].mean()) * 1.5, float(means[1, 1]) * 1.5])
    torch.testing.assert_close(history.usual(), expected)
    history.save(tmp_path)
    restored = PastEntropies()
    restored.restore(tmp_path)
    torch.testing.assert_close(restored.usual(), history.usual(), rtol=0, atol=0)


def test_a_weight_rises_over_its_warm_up_and_leaves_the_objective_the_rest():
    mu = make_term("expert_sft", 0.5, Schedule(1.0, 0.2, begin=0.2, shape="cosine"), {}, warmup=0.2)
    assert [mu.weight_at(progress) for progress in (0.0, 0.1, 0.2, 1.0)] == pytest.approx([0.0, 0.25, 0.5, 0.1])
    assert mu.weight_at(0.6) == pytest.approx(0.5 * (1.0 + 0.2) / 2)
    bonus = make_term("entropy_bonus", 0.3, None, {})
    assert objective_share([mu, bonus], 0.2) == 0.5
    assert objective_share([bonus], 0.2) == 1.0


def trainer_with_expert(tokenizer: Any, folder: Path) -> Any:
    trainer = trainer_of(tokenizer, folder)
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    given = Given(len(tokenizer))
    trainer.parts = [ExpertEpisodes(stored_experts([given._episode(Task("t0", "test/none-v1", "q"), 2)]))]
    return trainer


@pytest.mark.parametrize("objective", [None, "reinforce"])
def test_no_imitation_leaves_the_loss_as_it_is_and_nothing_else_is_that_of_a_warm_start(
    tokenizer,
    tmp_path,
    objective,
):
    trainer = trainer_with_expert(tokenizer, tmp_path)
    trainer._objective = make_objective(objective) if objective else None
    batch = trainer._generate_and_score_completions(rows())
    others, trainer._other_rows = trainer._other_rows, {}
    alone = gradients(trainer, batch)
    trainer._other_rows = others
    trainer._terms = [make_term("expert_sft", 0.0, None, {"phi": False})]
    beside = gradients(trainer, batch)
    for name, value in alone.items():
        torch.testing.assert_close(beside[name], value, rtol=0, atol=0)

    trainer._terms = [make_term("expert_sft", 1.0, None, {"phi": False})]
    imitated = gradients(trainer, batch)
    expert = others["experts"]
    ids = torch.cat([expert.batch["prompt_ids"], expert.batch["completion_ids"]], 1)
    own = torch.cat([torch.zeros_like(expert.batch["prompt_ids"]), expert.batch["tool_mask"]], 1)[:, 1:].bool()
    trainer.model.zero_grad()
    logps = (trainer.model(ids).logits[:, :-1] / trainer.temperature).log_softmax(-1)
    nll = -logps.gather(-1, ids[:, 1:, None])[..., 0][own].mean()
    nll.backward()
    assert float(imitated["loss"]) == pytest.approx(float(nll.detach()), rel=1e-5)
    for name, parameter in trainer.model.named_parameters():
        torch.testing.assert_close(imitated[name], parameter.grad, rtol=1e-3, atol=1e-6)
    assert trainer._metrics["train"]["loss/expert_sft"][-1] == pytest.approx(float(nll.detach()), rel=1e-5)


def test_parts_of_experts_add_up_and_grao_reads_both_kinds_of_rows(tokenizer, tmp_path):
    trainer = trainer_with_expert(tokenizer, tmp_path)
    trainer._objective = make_objective("grao")
    batch = trainer._generate_and_score_completions(rows())
    assert batch["expert_returns"].isnan().tolist() == [False] * GROUP + [True] * GROUP
    at_once = gradients(trainer, batch)
    assert trainer._metrics["train"]["loss/objective_of_experts"][-1] != 0
    trainer._microbatch_tokens = 1
    in_parts = gradients(trainer, batch)
    for name, value in at_once.items():
        torch.testing.assert_close(in_parts[name], value, rtol=1e-4, atol=1e-7)


class Corrected(TrainingPart):
    """Gives one corrected turn, of the fifth episode."""

    provides = ("corrections",)

    def __init__(self, episode: Trajectory) -> None:
        self._episode = episode

    def other_rows(self, step: StepBatch) -> dict[str, OtherRows]:
        return {"corrections": step.imitated([(self._episode, 4 // step.group_size)], 1)}


def test_a_corrected_thought_adds_its_cross_entropy_and_nothing_to_other_tokens(tokenizer, tmp_path):
    trainer = trainer_of(tokenizer, tmp_path)
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    episode = Given(len(tokenizer))._episode(Task("t1", "test/none-v1", "q"), 0)
    trainer.parts = [Corrected(episode)]
    batch = trainer._generate_and_score_completions(rows())
    assert trainer._other_rows["corrections"].batch["group_of_row"].tolist() == [1]
    alone = gradients(trainer, batch)
    trainer._terms = [make_term("thought_sft", 0.5, None, {})]
    beside = gradients(trainer, batch)
    ids = torch.tensor([[*episode.prompt_ids, *episode.turns[0].token_ids]])
    trainer.model.zero_grad()
    logps = (trainer.model(ids).logits / trainer.temperature).log_softmax(-1)
    start = len(episode.prompt_ids)
    (-0.5 * logps[0, start - 1 : -1].gather(-1, ids[0, start:, None]).mean()).backward()
    for name, parameter in trainer.model.named_parameters():
        torch.testing.assert_close(beside[name] - alone[name], parameter.grad, rtol=1e-3, atol=1e-6)


def test_what_the_trainer_was_not_given_is_named_before_the_first_step(tokenizer, tmp_path):
    trainer = trainer_of(tokenizer, tmp_path)
    for name, missing in (
        ("teacher_kl", "teacher"),
        ("reference_kl", "reference"),
        ("expert_sft", "experts"),
        ("thought_sft", "corrections"),
    ):
        trainer._terms = [make_term(name, 1.0, None, {})]
        with pytest.raises(
            CreditError, match=f"The term {name} needs {missing}, but TurnGRPOTrainer was created without it"
        ):
            trainer.train()


class Distances(TrainingPart):
    """Gives losses a number for each row, as a part of another package would."""

    provides = ("distances",)

    def columns(self, step: StepBatch) -> dict[str, torch.Tensor]:
        return {"distances": torch.arange(float(len(step.group_of_row)))}


def test_a_part_of_another_package_gives_a_loss_a_column_of_its_own(tokenizer, tmp_path):
    seen = []

    @define_loss(LossRequirements(parts=("distances",)))
    def near(tokens):
        seen.append(tokens.inputs["distances"].tolist())
        return tokens.per_row(tokens.logps) * tokens.inputs["distances"]

    trainer = trainer_of(tokenizer, tmp_path)
    trainer.current_gradient_accumulation_steps = 1
    trainer._terms = [WeightedTerm("near", near)]
    with pytest.raises(CreditError, match="The term near needs distances, but TurnGRPOTrainer was created without it"):
        trainer.train()
    trainer.parts = [Distances()]
    trainer.model.train()
    gradients(trainer, trainer._generate_and_score_completions(rows()))
    assert [sorted(column) for column in seen] == [[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]]  # rows of like length go together
