"""The three trainings of transformers and TRL share one list of arguments."""

from __future__ import annotations

from pathlib import Path

import agentgym.training
from agentgym.training.model.grpo_config import training_arguments

SHARED = dict(batch_size=4, learning_rate=0.1, max_grad_norm=0.5, keep_checkpoints=2, seed=3, use_cpu=True)


def arguments(save_every: int | None = 5) -> dict[str, object]:
    return training_arguments(Path("run"), steps=30, save_every=save_every, gradient_checkpointing=False, **SHARED)


def test_a_training_that_saves_nothing_has_no_step_at_which_it_would():
    assert arguments()["save_strategy"] == "steps"
    assert arguments()["save_steps"] == 5
    assert arguments(save_every=None)["save_strategy"] == "no"
    assert arguments(save_every=None)["save_steps"] == 30


def test_what_the_trainings_share_is_spelled_out_in_one_file():
    package = Path(agentgym.training.__file__).parent
    shared = ("output_dir", "per_device_train_batch_size", "report_to", "disable_tqdm", "data_seed")
    files = {
        str(file.relative_to(package)): [key for key in shared if f"{key}=" in file.read_text(encoding="utf-8")]
        for file in package.rglob("*.py")
    }
    assert {file: keys for file, keys in files.items() if keys} == {}
