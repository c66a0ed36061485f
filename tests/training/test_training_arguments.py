"""The three trainings of transformers and TRL share one list of arguments."""

from __future__ import annotations

from pathlib import Path

import pytest

import agentgym.training
from agentgym.training.model.grpo_config import grpo_config, training_arguments
from agentgym.training.processes import Processes
from agentgym.training.recipe.episode_section import EpisodeSection
from agentgym.training.recipe.hardware_section import HardwareSection
from agentgym.training.recipe.train_section import TrainSection

SHARED = dict(batch_size=4, learning_rate=0.1, max_grad_norm=0.5, keep_checkpoints=2, seed=3, use_cpu=True)


def arguments(save_every: int | None = 5) -> dict[str, object]:
    return training_arguments(Path("run"), steps=30, save_every=save_every, gradient_checkpointing=False, **SHARED)


def test_a_training_that_saves_nothing_has_no_step_at_which_it_would():
    assert arguments()["save_strategy"] == "steps"
    assert arguments()["save_steps"] == 5
    assert arguments(save_every=None)["save_strategy"] == "no"
    assert arguments(save_every=None)["save_steps"] == 30


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
@pytest.mark.parametrize(("warmup_steps", "rates"), [(0, [1.0, 1.0, 1.0]), (2, [0.0, 0.5, 1.0])])
def test_the_learning_rate_rises_over_the_warmup_steps(warmup_steps, rates, tmp_path):
    from torch import nn, optim
    from transformers import get_scheduler

    section = TrainSection.model_validate({"optimiser": {"learning_rate": 1.0, "warmup_steps": warmup_steps}})
    args = grpo_config(section, EpisodeSection(), HardwareSection(), tmp_path, "cpu", Processes(), seed=0)
    optimizer = optim.SGD(nn.Linear(1, 1).parameters(), lr=args.learning_rate)
    scheduler = get_scheduler(args.lr_scheduler_type, optimizer, args.get_warmup_steps(9), 9)
    for rate in rates:
        assert scheduler.get_last_lr() == [rate]
        optimizer.step()
        scheduler.step()


def test_what_the_trainings_share_is_spelled_out_in_one_file():
    package = Path(agentgym.training.__file__).parent
    shared = ("output_dir", "per_device_train_batch_size", "report_to", "disable_tqdm", "data_seed")
    files = {
        str(file.relative_to(package)): [key for key in shared if f"{key}=" in file.read_text(encoding="utf-8")]
        for file in package.rglob("*.py")
    }
    assert {file: keys for file, keys in files.items() if keys} == {}
