"""The advantages that reach TRL's loss are exactly the estimator's, on exactly the turns' tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny_trainers import GROUP, gradients, rows, trainer_of

from agentgym import Trajectory
from agentgym.credit import Group, estimator
from agentgym.errors import AgentGymError
from agentgym.training.loss.grpo_batches import token_batch
from agentgym.training.turn_grpo import TurnGRPOTrainer

# trl 1.16 still says gradient_checkpointing where transformers 5.23 says activation_checkpointing
pytestmark = pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")


def test_every_turn_gets_its_advantage_and_nothing_else_does(tokenizer, tmp_path):
    trainer = trainer_of(tokenizer, tmp_path)
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows())
    trajectories = trainer._rollouts.trajectories
    expected = np.zeros(batch["advantages"].shape)
    for start in (0, GROUP):
        credit = estimator("return_to_go")(Group.from_trajectories(trajectories[start : start + GROUP]))
        for row, advantages in enumerate(credit, start):
            if trajectories[row].valid:
                for (first, last), advantage in zip(trajectories[row].turn_spans(), advantages, strict=True):
                    expected[row, first:last] = advantage
    assert np.abs(expected).max() > 0
    np.testing.assert_allclose(batch["advantages"].numpy(), expected, rtol=1e-6)


def test_the_reward_is_told_how_much_of_the_training_is_done(tokenizer, tmp_path):
    trainer = trainer_of(tokenizer, tmp_path)
    trainer.model.train()
    trainer.state.max_steps = 8
    for step, progress in ((0, 0.0), (2, 0.25), (9, 1.0)):
        trainer.state.global_step = step
        trainer._generate_and_score_completions(rows())
        assert trainer._rollouts.options["progress"] == progress


def test_the_loss_sees_only_the_agents_tokens_and_no_failed_episode(tokenizer, tmp_path):
    trainer = trainer_of(tokenizer, tmp_path)
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows())
    mask = (batch["completion_mask"] * batch["tool_mask"]).numpy()
    for row, trajectory in enumerate(trainer._rollouts.trajectories):
        arrays = trajectory.arrays()
        if trajectory.valid:
            own = arrays.loss_mask[arrays.prompt_length :].astype(int)
            assert mask[row, : len(own)].tolist() == own.tolist()
            assert mask[row, len(own) :].sum() == 0
        else:
            assert mask[row].sum() == 0
    assert torch.isfinite(batch["advantages"]).all()


def test_the_behaviour_policy_is_what_was_sampled_from(tokenizer, tmp_path):
    trainer = trainer_of(tokenizer, tmp_path)
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows())
    mask = (batch["completion_mask"] * batch["tool_mask"]).bool()
    assert (batch["old_per_token_logps"][mask] == -1.0).all()


def test_the_gap_between_sampling_and_training_is_logged_as_drift(tokenizer, tmp_path):
    """The record says -1 for every token; the untrained model says about -log(300)."""
    trainer = trainer_of(tokenizer, tmp_path)
    trainer.model.train()
    batch = trainer._generate_and_score_completions(rows())
    trainer.current_gradient_accumulation_steps = 1
    trainer.compute_loss(trainer.model, batch)
    [drift] = trainer._metrics["train"]["guard/drift"]
    assert drift == pytest.approx(np.log(len(tokenizer)) - 1, rel=0.1)
    trainer._step = trainer.args.steps_per_generation  # as in a second iteration over the batch
    trainer.num_iterations = 2
    trainer.compute_loss(trainer.model, batch)
    assert len(trainer._metrics["train"]["guard/drift"]) == 1


@pytest.mark.parametrize("logprobs", [[], [-1.0, np.nan, -1.0]])
def test_without_all_log_probabilities_the_behaviour_policy_is_the_model(tokenizer, tmp_path, logprobs):
    trainer = trainer_of(tokenizer, tmp_path, num_iterations=2)
    trainer.model.train()
    play = trainer._rollouts.play

    def without(*arguments: Any, **options: Any) -> list[Trajectory]:
        trajectories = play(*arguments, **options)
        trajectories[-1].turns[0].logprobs = logprobs
        return trajectories

    trainer._rollouts.play = without
    batch = trainer._generate_and_score_completions(rows())
    gaps = log_ratios_of(trainer, batch, 2, *trainer._rollouts.trajectories[2].turn_spans()[0])
    np.testing.assert_allclose(batch["old_per_token_logps"][2, : len(gaps)], gaps - 1.0, rtol=1e-4)
    trainer.current_gradient_accumulation_steps = 1
    assert all(value.isfinite().all() for value in gradients(trainer, batch).values())


def test_a_failure_is_treated_as_the_recipe_says(tokenizer, tmp_path):
    """The made-up turns end in an answer; those that `length` cut are `cut`, and lose their advantage."""
    trainer = trainer_of(tokenizer, tmp_path)
    trainer._failures = {"cut": "mask_episode"}
    trainer.model.train()
    assert trainer._generate_and_score_completions(rows())["advantages"].any()
    play = trainer._rollouts.play

    def cut(*arguments: Any, **options: Any) -> list[Trajectory]:
        trajectories = play(*arguments, **options)
        for trajectory in trajectories:
            trajectory.turns[0].finish_reason = "length"
        return trajectories

    trainer._rollouts.play = cut
    assert not trainer._generate_and_score_completions(rows())["advantages"].any()


def test_a_batch_that_splits_a_group_is_refused(tokenizer, tmp_path):
    trainer = trainer_of(tokenizer, tmp_path)
    trainer.model.train()
    with pytest.raises(AgentGymError, match="whole groups of 3"):
        trainer._generate_and_score_completions(rows()[:-1])


def off_policy_trainer(tokenizer, folder, text: str) -> TurnGRPOTrainer:
    trainer = trainer_of(tokenizer, folder)
    trainer._estimator = estimator(text)
    trainer.model.train()
    return trainer


def log_ratios_of(trainer: TurnGRPOTrainer, batch: dict[str, Any], row: int, start: int, end: int) -> np.ndarray:
    """log pi_train - log pi_rollout of some tokens, by the model itself; the rollouts recorded -1 for each."""
    ids = torch.cat([batch["prompt_ids"][row], batch["completion_ids"][row]])[None]
    mask = torch.cat([batch["prompt_mask"][row], batch["completion_mask"][row]])[None]
    with torch.no_grad():
        logits = trainer.model(ids, attention_mask=mask).logits[0].double().log_softmax(-1)
    at = batch["prompt_ids"].shape[1]
    return np.array([float(logits[at + t - 1, ids[0, at + t]]) + 1.0 for t in range(start, end)])


def test_a_turn_is_weighed_by_what_the_trained_policy_says_of_it(tokenizer, tmp_path):
    """E20: exp(sum of log pi_train + 1) of each turn's tokens, capped at 2, times the estimator's advantage."""
    trainer = off_policy_trainer(tokenizer, tmp_path, "return_to_go | off_policy(over='mean', high=0.01)")
    batch = trainer._generate_and_score_completions(rows())
    trajectories = trainer._rollouts.trajectories
    checked = 0
    for begin in (0, GROUP):
        credit = estimator("return_to_go")(Group.from_trajectories(trajectories[begin : begin + GROUP]))
        for row, advantages in enumerate(credit, begin):
            for (start, end), advantage in zip(trajectories[row].turn_spans(), advantages, strict=True):
                if trajectories[row].valid:
                    weight = min(np.exp(log_ratios_of(trainer, batch, row, start, end).mean()), 0.01)
                    np.testing.assert_allclose(batch["advantages"][row, start:end], weight * advantage, rtol=1e-4)
                    checked += 1
    assert checked > 6


def test_what_the_advantages_correct_is_not_corrected_again(tokenizer, tmp_path):
    """TRL's own ratio starts at 1: the old log-probabilities are those of the policy being trained."""
    trainer = off_policy_trainer(tokenizer, tmp_path, "rloo | off_policy")
    batch = trainer._generate_and_score_completions(rows())
    (start, end), *_ = trainer._rollouts.trajectories[0].turn_spans()
    gaps = log_ratios_of(trainer, batch, 0, start, end)
    np.testing.assert_allclose(batch["old_per_token_logps"][0, start:end], gaps - 1.0, rtol=1e-4)


def test_turns_of_another_version_are_cut_and_entropies_are_there(tokenizer, tmp_path):
    """The recorded turns are of version 0; at step 5 they are 5 versions behind."""
    trainer = off_policy_trainer(tokenizer, tmp_path, "rloo | off_policy(max_lag=4) | entropy_weighted")
    assert trainer._generate_and_score_completions(rows())["advantages"].any()
    trainer.state.global_step = 5
    assert not trainer._generate_and_score_completions(rows())["advantages"].any()


def test_scores_are_as_long_as_the_policys_probabilities_say(tokenizer, tmp_path):
    """sum 1 - 2 pi + sum pi^2 over a turn's tokens, by the model itself."""
    trainer = off_policy_trainer(tokenizer, tmp_path, "otb")
    batch = trainer._generate_and_score_completions(rows())
    looked = trainer._second_pass(batch)
    assert looked is not None
    trajectories = trainer._rollouts.trajectories
    given = looked.signals(batch, trajectories)["score_norms"]
    at = batch["prompt_ids"].shape[1]
    for row in (0, 2, 5):
        ids = torch.cat([batch["prompt_ids"][row], batch["completion_ids"][row]])[None]
        mask = torch.cat([batch["prompt_mask"][row], batch["completion_mask"][row]])[None]
        with torch.no_grad():
            chances = trainer.model(ids, attention_mask=mask).logits[0].double().softmax(-1)
        for (start, end), norm in zip(trajectories[row].turn_spans(), given[row], strict=True):
            expected = sum(
                float(1 - 2 * chances[at + t - 1, ids[0, at + t]] + chances[at + t - 1].square().sum())
                for t in range(start, end)
            )
            assert norm == pytest.approx(expected, rel=1e-4)
    assert batch["advantages"].any()


@pytest.mark.parametrize("text", ["rloo", "rloo | off_policy"])
def test_the_correction_of_trls_own_sampler_is_applied_once(tokenizer, tmp_path, text):
    """Its ratio multiplies the advantages, unless they correct for the sampler already."""
    trainer = off_policy_trainer(tokenizer, tmp_path, text)
    trainer.use_vllm, trainer._last_loaded_step = True, 0  # as with [train.trl] use_vllm = true
    trainer.vllm_importance_sampling_mode = "token_truncate"
    batch = trainer._generate_and_score_completions(rows())
    tokens = token_batch(batch, batch["old_per_token_logps"], batch["old_per_token_logps"], 64)
    (start, end), *_ = trainer._rollouts.trajectories[0].turn_spans()
    ratios = 1.0 if "off_policy" in text else np.exp(log_ratios_of(trainer, batch, 0, start, end))
    assert batch["advantages"][0, start:end].all()
    corrected, own = tokens.advantages[0, start:end].numpy(), batch["advantages"][0, start:end].numpy()
    np.testing.assert_allclose(corrected, own * ratios, rtol=1e-4)
