"""Training with a logit hook: the trainer computes log-probabilities of the masked distribution, as the sampler did."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from lookup_runs import RECIPE, execute, recipe
from tiny_trainers import Given, rows, trainer_of

from agentgym.errors import RecipeError
from agentgym.policy import make_tokenizer
from agentgym.registry import load_task_set
from agentgym.storage.ledger import Ledger
from agentgym.training import Recipe
from agentgym.training.checks.preflight import check_before_start
from agentgym.training.loss.row_data import RowData
from agentgym.trajectory import TokenMask

pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")

SHORT = {
    "policy__logit_hook": "known_tools",
    "warm_start__steps": 8,
    "warm_start__validate_every": 8,
    "train__steps": 2,
    "episode__temperature": 1.5,
}


@pytest.fixture(scope="module")
def tokenizer():
    return make_tokenizer(["what is in the box"] * 20, vocab_size=300)


ORDER = {"formula": "U(not answer, look)", "ending_tools": ["answer"]}


@pytest.mark.parametrize("hook", [{}, {"policy__logit_hook": "protocol", "policy__logit_hook_options": ORDER}])
def test_sampler_and_trainer_agree_on_masked_tokens(tmp_path, hook):
    """Two steps with a hot, hardly trained model: many tokens would be refused."""
    execute(recipe(**SHORT | hook), tmp_path)
    steps = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    drifts = [row["guard/drift"] for row in steps if "guard/drift" in row]
    assert len(drifts) == 2
    assert max(drifts) < 5e-7
    ledger = Ledger(tmp_path / "ledger.sqlite")
    turns = [turn for trajectory in ledger.trajectories("train-") for turn in trajectory.turns]
    ledger.close()
    assert sum(end - begin for turn in turns for begin, end, _ in turn.masks) > 10
    assert {call.name for turn in turns for call in turn.calls if not call.error} <= {"look", "answer"}


class GivenMasks(Given):
    """As Given; in each turn the second and third token were sampled under masks."""

    def play(self, *arguments, **options):
        trajectories = super().play(*arguments, **options)
        for trajectory in trajectories:
            for turn in trajectory.turns:
                other = (turn.token_ids[1] + 7) % self._vocabulary
                refused = tuple({3, 4, 5, other} - set(turn.token_ids))
                turn.masks = [(1, 2, TokenMask((turn.token_ids[1], other), True)), (2, 3, TokenMask(refused, False))]
        return trajectories


def test_log_probabilities_and_entropies_are_those_of_the_masked_logits(tokenizer, tmp_path):
    """By the whole logits of the model, masked and normalised anew."""
    trainer = trainer_of(tokenizer, tmp_path, temperature=0.7)
    trainer._rollouts = GivenMasks(len(tokenizer))
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows())
    assert batch["row_data"][1].masks == ()  # the failed episode
    trainer._begin_pass(batch)
    trainer._score(trainer.model, batch)
    logps, entropies, *_ = trainer._pass.scores
    ids, seen = (torch.cat([batch[f"prompt_{kind}"], batch[f"completion_{kind}"]], 1) for kind in ("ids", "mask"))
    width, own = batch["completion_ids"].shape[1], trainer._pass.own_tokens.bool()
    with torch.no_grad():
        logits = trainer.model(ids, attention_mask=seen).logits[:, -width - 1 : -1].double() / 0.7
    for row, data in enumerate(batch["row_data"]):
        for begin, end, mask in data.masks:
            named = torch.zeros(logits.shape[2], dtype=torch.bool)
            named[list(mask.ids)] = True
            logits[row, begin:end, ~named if mask.allowed else named] = -torch.inf
    expected = logits.log_softmax(-1)
    chosen = expected.gather(-1, batch["completion_ids"][..., None])[..., 0]
    np.testing.assert_allclose(logps[own].detach().numpy(), chosen[own].numpy(), atol=2e-6)
    entropy = -(expected.exp() * expected.nan_to_num(neginf=0.0)).sum(-1)
    np.testing.assert_allclose(entropies[own].detach().numpy(), entropy[own].numpy(), atol=2e-5)


def test_the_gradient_is_that_of_the_masked_distribution(tokenizer, tmp_path):
    """A token that was the only one allowed has probability 1 and moves nothing."""
    trainer = trainer_of(tokenizer, tmp_path)
    trainer._rollouts = GivenMasks(len(tokenizer))
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows())
    own = (batch["completion_mask"] * batch["tool_mask"]).bool()
    alone = [
        [(t, t + 1, TokenMask((int(batch["completion_ids"][row, t]),), True)) for t in range(own.shape[1])]
        for row in range(len(own))
    ]
    trainer._begin_pass(batch | {"row_data": [RowData(masks=masks) for masks in alone]})
    trainer._score(trainer.model, batch)
    logps, *_ = trainer._pass.scores
    assert not logps[own].any()
    logps[own].sum().backward()
    assert all(p.grad is None or float(p.grad.abs().max()) < 1e-6 for p in trainer.model.parameters())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"policy": {"logit_hook_options": {"a": 1}}},
            "policy.logit_hook_options is given without policy.logit_hook. Name a logit hook",
        ),
        (
            {"vllm": {"url": "http://127.0.0.1:9"}, "policy": {"logit_hook": "nlpo"}},
            r"policy.logit_hook = 'nlpo' cannot be used with \[vllm\]: .*Leave the hook out",
        ),
        ({"train": {"generation": "trl"}, "policy": {"logit_hook": "known_tools"}}, "needs train.generation"),
        ({"train": {"estimator": "otb"}, "policy": {"logit_hook": "known_tools"}}, "otb requires score_norms"),
        (
            {"train": {"estimator_wrappers": ["self_certainty"]}, "policy": {"logit_hook": "known_tools"}},
            "self_certainty requires token_certainties",
        ),
    ],
)
def test_what_does_not_know_the_masks_is_refused_at_the_start(changes, message):
    data = json.loads(json.dumps(RECIPE))
    for section, keys in changes.items():
        data[section] = {**data.get(section, {}), **keys}
    chosen = Recipe.parse(data)
    with pytest.raises(RecipeError, match=message):
        check_before_start(chosen, load_task_set(chosen.tasks.set))


def test_a_hook_that_is_not_registered_is_named_with_the_key():
    with pytest.raises(RecipeError, match=r"policy\.logit_hook = 'known_tool'.*Did you mean 'known_tools'"):
        recipe(policy__logit_hook="known_tool")
