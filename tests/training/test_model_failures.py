"""A model that fails is named where it fails, with the cause, and nothing goes on as if it had not."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from lookup_runs import execute, small
from rich.console import Console

from agentgym import Task, Trajectory, Turn
from agentgym.credit import credit_of, estimator
from agentgym.errors import EpisodesFailed, PolicyError, RecipeError
from agentgym.messages import Message, StopReason
from agentgym.policy.decoding import Decoder
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe, train
from agentgym.training.stages.context import RunContext
from agentgym.training.turn_grpo import TurnGRPOTrainer


@pytest.fixture(scope="module")
def warm(tmp_path_factory) -> Path:
    """A checkpoint to start from."""
    folder = tmp_path_factory.mktemp("warm") / "run"
    execute(small(steps=0), folder)
    return folder / "checkpoints" / "warm_start"


def from_checkpoint(path: Path, **train) -> Recipe:
    data = small(kl=0.0, path=path, **train).model_dump(exclude_none=True)
    return Recipe.parse({key: value for key, value in data.items() if key != "warm_start"})


def out_of_memory(*_, **__):
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.")


@pytest.mark.parametrize("warm_start", [True, False])
def test_a_model_without_memory_for_its_rollouts_ends_the_run_with_the_cause(warm, tmp_path, monkeypatch, warm_start):
    """In the warm start's validation, and in the held-out evaluation before training."""
    monkeypatch.setattr(Decoder, "run", out_of_memory)
    chosen = small(path=warm) if warm_start else from_checkpoint(warm)
    batch = "warm_start_validation" if warm_start else "held-out-before"
    with pytest.raises(EpisodesFailed, match=rf"of {batch}.* failed: .*OutOfMemoryError: CUDA.*machine\.max_batch"):
        execute(chosen, tmp_path / "run")
    assert not (tmp_path / "run" / "evaluation" / "before.json").exists()


def test_a_run_that_ended_for_want_of_memory_is_resumed(warm, tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(Decoder, "run", out_of_memory)
        with pytest.raises(EpisodesFailed):
            execute(from_checkpoint(warm, steps=0), tmp_path / "run")
    execute(from_checkpoint(warm, steps=0), tmp_path / "run", resume=True)
    assert RunFolder(tmp_path / "run").evaluations() == ["after", "before"]


def test_a_step_without_memory_names_the_stage_and_what_to_change(warm, tmp_path, monkeypatch):
    monkeypatch.setattr(TurnGRPOTrainer, "_compute_loss", out_of_memory)
    with pytest.raises(
        PolicyError, match=r"ran out in reinforcement\. Lower train\.microbatch_tokens.*CUDA out of memory"
    ):
        execute(from_checkpoint(warm), tmp_path / "run")


def test_a_warm_start_that_diverges_ends_with_its_step(tmp_path):
    data = small().model_dump(exclude_none=True)
    data["warm_start"] |= {"learning_rate": 1e30, "steps": 20, "validate_every": 99}
    with pytest.raises(PolicyError, match=r"warm start diverged: .* at step 10\. Lower warm_start\.learning_rate"):
        execute(Recipe.parse(data), tmp_path / "run")


def test_some_failed_episodes_are_reported_with_their_causes(warm, tmp_path):
    chosen, console = from_checkpoint(warm), Console(file=io.StringIO())
    context = RunContext.open(
        RunFolder(tmp_path / "run").create(), chosen, chosen.tasks.load(), console, state_keys=False
    )
    failed = Trajectory("a", Task("t", "test/press-v1", "p"), stop_reason=StopReason.INFRA_ERROR, error="it broke")
    ended = Trajectory(
        "b",
        Task("t", "test/press-v1", "p"),
        stop_reason=StopReason.ANSWERED,
        turns=[Turn(0, Message("assistant", "a"))],
    )
    context.rollouts.report_failures("train-000001", [failed, ended], recorded_as=["train-000001"])
    context.rollouts.close()
    assert console.file.getvalue().splitlines() == ["train-000001: 1 of 2 episodes failed", "  1 x it broke"]


def test_a_group_in_which_every_episode_failed_gets_no_credit():
    """Before, it ended the training with advice about the reward."""
    task = Task("t", "test/press-v1", "p")

    def played_trajectory(outcome: float | None) -> Trajectory:
        reason = StopReason.INFRA_ERROR if outcome is None else StopReason.ANSWERED
        trajectory = Trajectory("x", task, stop_reason=reason, outcome={} if outcome is None else {"success": outcome})
        trajectory.turns.append(Turn(0, Message("assistant", "a")))
        return trajectory

    batch = [played_trajectory(outcome) for outcome in (None, None, 1.0, 0.0)]
    advantages = np.concatenate(credit_of(batch, estimator("grpo"), group_size=2))
    assert not advantages[:2].any()
    assert advantages[2] > 0 > advantages[3]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"episode": {"top_p": 0.9}}, r"episode\.top_p = 0\.9 is not possible in training"),
        ({"train": {"trl": {"top_k": 20}}}, r"train\.trl\.top_k = 20"),
        ({"train": {"trl": {"min_p": 0.1}}}, r"train\.trl\.min_p = 0\.1"),
        ({"train": {"trl": {"repetition_penalty": 1.1}}}, r"train\.trl\.repetition_penalty = 1\.1"),
        ({"train": {"trl": {"generation_kwargs": {"top_k": 5}}}}, r"train\.trl\.top_k = 5"),
    ],
)
def test_truncated_sampling_is_refused_in_training(tmp_path, changes, says):
    data = json.loads(small().model_dump_json(exclude_none=True))
    for section, values in changes.items():
        data[section] |= values
    with pytest.raises(RecipeError, match=says):
        train(Recipe.parse(data), folder=tmp_path / "run", console=Console(file=io.StringIO()))
    assert not (tmp_path / "run").exists()
