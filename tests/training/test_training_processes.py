"""Several processes train as one does: the first plays and decides, all learn, and none is left behind."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest
import torch
from forks import start_processes, train_in_processes
from lookup_runs import RECIPE, execute, start, weights

from agentgym.cli.app import app
from agentgym.errors import RecipeError
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe
from agentgym.training.processes import Processes

CHANGES = {
    "policy": RECIPE["policy"] | {"logit_hook": "known_tools"},  # its masks are of the rows of each process
    "reward": {"name": "test_vowels"},
    "warm_start": {"demonstrations": 16, "steps": 4, "batch_size": 8, "validate_every": 2, "validate_tasks": 2},
    "train": {
        # Batches are whitened, entropies come from each process's own forward pass, and five groups of two straddle.
        "estimator": "reinforce_pp | entropy_weighted() | entropy_tokens()",
        "steps": 2,
        "tasks_per_step": 5,
        "group_size": 2,
        "microbatch_tokens": 300,  # several parts, of which each process has its own
        "kl": 0.05,
        "optimiser": {"learning_rate": 0.01},
        "save_every": 1,
        "validate_tasks": 2,
        "trl": {"optim": "sgd"},  # Adam would make much of the last bit
    },
    "evaluate": {"tasks": 2},
}


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return Recipe.parse(json.loads(json.dumps(RECIPE | CHANGES)))


def test_two_processes_end_with_the_weights_of_one(recipe, tmp_path):
    execute(recipe, tmp_path / "one")
    (tmp_path / "recipe.toml").write_text(recipe.to_toml())
    words = ["train", str(tmp_path / "recipe.toml"), "--out", str(tmp_path / "two")]
    printed = train_in_processes(2, lambda: app(words, standalone_mode=False), tmp_path)
    assert printed.count("Report:") == 1
    single, double = weights(tmp_path / "one"), weights(tmp_path / "two")
    differences = torch.cat([(single[name] - double[name]).abs().flatten() for name in single])
    # Adam, of the warm start, divides a gradient near 0 by itself: a last bit moves single weights by a whole step.
    assert float(differences.quantile(0.99)) < 1e-6
    assert float(differences.max()) < 1e-4
    for row_of_one, row_of_two in zip(*(RunFolder(tmp_path / n).metrics("train") for n in ("one", "two")), strict=True):
        assert row_of_one["grad_norm"] > 0
        for name in ("success", "turn_reward/vowels", "credit/std", "kl", "grad_norm"):
            assert row_of_two[name] == pytest.approx(row_of_one[name], rel=1e-4, abs=1e-6), name
    assert row_of_two["guard/drift"] < 1e-5


def test_the_first_process_tells_no_other_that_a_signal_ends_it():
    """The others may have ended: the launcher sends them the same signal."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Processes(rank=0, count=2).share(interrupted)


@pytest.mark.parametrize("hung", [0, 1])
def test_a_process_that_hangs_is_named_within_the_silence_that_the_recipe_allows(hung, tmp_path):
    """The hung process may be the first, in which the launcher's store lives here."""

    def work() -> None:
        processes = Processes.joined("cpu", 1.0)
        processes.gather(processes.rank)
        if processes.rank == hung:
            os.kill(os.getpid(), signal.SIGSTOP)
        processes.gather(processes.rank)

    forks, logs = start_processes(2, work, tmp_path)
    try:
        assert forks[1 - hung].wait(60) != 0
    finally:
        for fork in forks:
            fork.send_signal(signal.SIGKILL)
    message = rf"Process {hung} of this training \(host .+, pid {forks[hung].pid}\) has not answered for 1 s"
    assert re.search(message, logs[1 - hung].read_text())


@pytest.mark.thorough  # each process imports everything for one line; test_run.py has it for one process
def test_a_folder_that_holds_a_run_is_refused_by_two_processes_in_one_voice(recipe, tmp_path):
    (tmp_path / "recipe.toml").write_text(recipe.to_toml())
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "recipe.toml").write_text(recipe.to_toml())
    repeated = start(2, tmp_path / "recipe.toml", "--out", tmp_path / "two")
    assert repeated.returncode != 0
    assert repeated.stderr.count("already holds a run") == 1


def test_a_batch_that_cannot_be_shared_out_is_refused():
    with pytest.raises(RecipeError, match=r"warm_start.batch_size: 7 rows cannot be divided evenly among 2"):
        Processes(0, 2).part_of(7, "warm_start.batch_size")
