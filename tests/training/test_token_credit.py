"""Credit finer than a turn in the trainer: the tokens of a span move, and no others of its turn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_trainers import GROUP, Given, rows, trainer_of

from agentgym import Policy, Trajectory
from agentgym.credit import estimator
from agentgym.errors import CreditError
from agentgym.messages import Call, Message
from agentgym.methods.signals.named_spans import NamedSpans
from agentgym.methods.signals.token_spans import token_ranges
from agentgym.policy import Hermes, TemplateRenderer, make_tokenizer
from agentgym.training.loss.policy_loss import LossPart
from agentgym.training.signals.policy_pass import MEASURES
from agentgym.training.turn_grpo import TurnGRPOTrainer
from agentgym.trajectory import Span

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")

CODE = "é = 1\nü = é / 0\n"
SPAN = Span(CODE.index("ü"), len(CODE) - 1, 1.0, 0, "code")
ROW = GROUP - 1  # the last of the first group: of three turns, the first of which gets the span


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer(["what is in the box"] * 20, vocab_size=300)


class GivenSpans(Given):
    """As Given; in one turn code was tested, and its second line failed."""

    def __init__(self, renderer: TemplateRenderer, *, named: bool = True, bonus: float = 0.0) -> None:
        super().__init__(len(renderer.tokenizer))
        self._renderer, self._named, self._bonus = renderer, named, bonus

    def play(self, *arguments: Any, **options: Any) -> list[Trajectory]:
        trajectories = super().play(*arguments, **options)
        trajectories[ROW].outcome = {"success": -1.0}
        for each in trajectories[ROW].turns:
            each.rewards = {"r": 0.0}
        turn = trajectories[ROW].turns[0]
        turn.rewards = {"r": self._bonus}
        turn.message = Message("assistant", "", (Call("test", {"code": CODE}),))
        turn.token_ids = self._renderer.encode(turn.message)
        turn.logprobs = [-1.0] * len(turn.token_ids)
        turn.spans = (SPAN,) if self._named else ()
        return trajectories


def span_trainer(tokenizer: Any, folder: Path, text: str, **options: Any) -> TurnGRPOTrainer:
    unclipped = {"epsilon": 10.0, "epsilon_high": 1e9}  # the recorded log-probabilities are not those of the model
    trainer = trainer_of(tokenizer, folder, loss_type="dr_grpo", max_completion_length=256, **unclipped)
    policy = Policy()
    policy.renderer = renderer = TemplateRenderer(tokenizer, Hermes())
    trainer._rollouts, trainer._estimator = GivenSpans(renderer, **options), estimator(text)
    trainer._signal_providers = [NamedSpans(policy)]
    trainer.model.train()
    return trainer


def tokens_in_span(trainer: TurnGRPOTrainer) -> list[bool]:
    turn = trainer._rollouts.trajectories[ROW].turns[0]
    text, ranges = token_ranges(trainer._tokenizer, turn.token_ids)
    start = text.index("ü =")
    return [begin < start + len("ü = é / 0") and end > start for begin, end in ranges]


def test_only_the_tokens_of_a_span_move(tokenizer, tmp_path):
    """The gradient at the last hidden states, from which each next token is predicted, is exactly 0 elsewhere."""
    trainer = span_trainer(tokenizer, tmp_path, "return_to_go | span_weighted")
    batch = trainer._generate_and_score_completions(rows())
    inside = tokens_in_span(trainer)
    advantages = batch["advantages"][ROW, : len(inside)]
    assert advantages[torch.tensor(inside)].unique().numel() == 1
    assert float(advantages[inside.index(True)]) < 0
    assert 2 < sum(inside) < len(inside) - 10
    states: list[torch.Tensor] = []

    def keep(_: Any, __: Any, outputs: Any) -> None:
        outputs.last_hidden_state.retain_grad()
        states.append(outputs.last_hidden_state)

    trainer.model.base_model.register_forward_hook(keep)
    trainer.current_gradient_accumulation_steps = 1
    trainer._part_loss(trainer.model, LossPart(batch, 1.0, 1.0), [], []).backward()
    [state] = states
    assert state.grad is not None
    before = batch["prompt_ids"].shape[1] - 1  # the state from which the first token is predicted
    moved = state.grad[ROW, before : before + len(inside)].abs().sum(-1) > 0
    assert moved.tolist() == inside
    others = [row for row in range(len(batch["prompt_ids"])) if row != ROW]
    assert (state.grad[others].abs().sum(dim=(1, 2)) > 0).tolist() == [True, False, *[True] * (len(others) - 2)]


def test_without_spans_the_batch_is_that_of_the_estimator_alone(tokenizer, tmp_path):
    batches = [
        span_trainer(tokenizer, tmp_path, text, named=False)._generate_and_score_completions(rows())["advantages"]
        for text in ("return_to_go | span_weighted(turns='all')", "return_to_go")
    ]
    assert torch.equal(*batches)
    assert batches[0].any()


def test_the_share_of_spans_that_could_not_be_found_is_logged(tokenizer, tmp_path):
    trainer = span_trainer(tokenizer, tmp_path, "return_to_go | span_weighted")
    trainer._generate_and_score_completions(rows())
    metrics = trainer._metrics["train"]
    assert (metrics["spans/named"], metrics["spans/left_out"]) == ([1.0], [0.0])


def test_entropies_of_tokens_reach_the_batch(tokenizer, tmp_path):
    """The advantage of a turn times 1 + min(0.4 H, |A| / 2) / A, and so never of another sign."""
    trainer = trainer_of(tokenizer, tmp_path)
    trainer.model.train()
    plain = trainer._generate_and_score_completions(rows())["advantages"].numpy()
    with_bonus = trainer_of(tokenizer, tmp_path)
    with_bonus._estimator = estimator("return_to_go | entropy_tokens(weight=0.001)")
    with_bonus.model.train()
    batch = with_bonus._generate_and_score_completions(rows())
    bonus = batch["advantages"].numpy() - plain
    own = plain != 0
    assert (bonus[own] > 0).all()
    np.testing.assert_allclose(bonus[own], 0.001 * np.log(len(tokenizer)), rtol=0.1)  # hardly trained, near uniform
    assert not bonus[~own].any()


def test_a_turn_is_paid_the_certainty_of_the_model_at_the_tokens_of_its_span(tokenizer, tmp_path):
    """KL(U || pi) = sum over the vocabulary of (1 / V) log((1 / V) / pi), by the model itself, at every own token."""
    trainer = sharp_trainer(tokenizer, tmp_path, "return_to_go | self_certainty(weight=0.5)")
    batch = trainer._generate_and_score_completions(rows())
    second_pass, trajectories = trainer._second_pass(batch), trainer._rollouts.trajectories
    assert second_pass is not None
    given = second_pass.signals(batch, trajectories)["token_certainties"]
    assert given[1] == [[], []]  # of the episode that failed
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    with torch.no_grad():
        logps = trainer.model(ids, attention_mask=mask).logits.double().log_softmax(-1)
    uniform = 1.0 / logps.shape[-1]
    expected = (uniform * (np.log(uniform) - logps)).sum(-1)[:, batch["prompt_ids"].shape[1] - 1 : -1].numpy()
    for row in (0, ROW):
        for (start, end), own in zip(trajectories[row].turn_spans(), given[row], strict=True):
            np.testing.assert_allclose(own, expected[row, start:end], rtol=1e-4)
    inside = np.array(tokens_in_span(trainer))
    bonus = 0.5 * float(expected[ROW, : len(inside)][inside].mean())
    assert bonus > 0.1
    assert bonus != pytest.approx(0.5 * float(expected[ROW, : len(inside)].mean()), rel=1e-3)

    by_hand = sharp_trainer(tokenizer, tmp_path, "return_to_go", bonus=bonus)
    paid = by_hand._generate_and_score_completions(rows())["advantages"]
    np.testing.assert_allclose(batch["advantages"], paid, rtol=1e-4, atol=1e-6)
    plain = sharp_trainer(tokenizer, tmp_path, "return_to_go")._generate_and_score_completions(rows())["advantages"]
    assert not torch.allclose(plain, paid)


def test_tokens_that_are_ruled_out_are_not_in_the_uniform_distribution():
    """Of 1/4 and 3/4: (log 2 + log 2/3) / 2. Of four alike: 0."""
    least = torch.finfo(torch.float32).min
    logits = torch.tensor([[[0.0, np.log(3.0), least, -torch.inf], [2.0] * 4]], dtype=torch.float32)
    np.testing.assert_allclose(
        MEASURES["token_certainties"](logits, torch.zeros(1, 2)), [[0.5 * np.log(4 / 3), 0.0]], atol=1e-6
    )


def sharp_trainer(tokenizer: Any, folder: Path, text: str, **options: Any) -> TurnGRPOTrainer:
    """As span_trainer, with a model that is not nearly uniform."""
    trainer = span_trainer(tokenizer, folder, text, **options)
    with torch.no_grad():
        trainer.model.lm_head.weight.mul_(20.0)
    return trainer


def test_a_policy_without_a_tokenizer_is_refused():
    with pytest.raises(CreditError, match="has no tokenizer"):
        NamedSpans(Policy())
