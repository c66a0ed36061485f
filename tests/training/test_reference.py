"""The KL term is against the model that reinforcement starts from, however the run came to that start."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from lookup_runs import PUSHED, assert_equal_weights, execute, kl_of, small

from agentgym.errors import RecipeError
from agentgym.storage.run_folder import RunFolder


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A tiny model, warm-started, then trained for four steps against a reference that is reset after the second."""
    folder = tmp_path_factory.mktemp("reference") / "run"
    execute(small(**PUSHED, steps=4, reference={"reset_every": 2}, keep_checkpoints=4), folder)
    return folder


def test_a_tiny_model_starts_at_its_reference_and_leaves_it(run):
    kl = kl_of(run)
    assert kl[1] == 0
    assert kl[2] > 0
    assert (run / "checkpoints" / "reference" / "model.safetensors").is_file()


def test_a_reset_reference_is_the_model_again(run):
    kl = kl_of(run)
    assert kl[3] == 0
    assert kl[4] > 0


def test_a_moved_reference_is_kept_with_each_checkpoint_and_resumed_with_it(run, tmp_path):
    """Step 4 reads the reference of step 2, so a run that forgot it would end elsewhere."""
    copy = tmp_path / "run"
    shutil.copytree(run, copy)
    for name in ("final", "checkpoint-4"):
        shutil.rmtree(copy / "checkpoints" / name)
    for name in ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm", "evaluation/after.json"):
        (copy / name).unlink(missing_ok=True)
    execute(small(**PUSHED, steps=4, reference={"reset_every": 2}, keep_checkpoints=4), copy, resume=True)
    assert kl_of(copy) == kl_of(run)
    assert_equal_weights(run, copy)


def test_a_reference_that_follows_the_policy_is_resumed_where_it_was(tmp_path):
    """TRL moves it half of the way after each step, so step 3 reads a reference that steps 1 and 2 have moved."""
    moving = PUSHED | {
        "trl": PUSHED["trl"] | {"sync_ref_model": True, "ref_model_sync_steps": 1, "ref_model_mixup_alpha": 0.5}
    }
    chosen, unbroken, resumed = small(**moving, steps=3), tmp_path / "unbroken", tmp_path / "resumed"
    execute(chosen, unbroken)
    shutil.copytree(unbroken, resumed)
    for name in ("final", "checkpoint-3"):
        shutil.rmtree(resumed / "checkpoints" / name)
    for name in ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm", "evaluation/after.json"):
        (resumed / name).unlink(missing_ok=True)
    execute(chosen, resumed, resume=True)
    assert kl_of(resumed) == kl_of(unbroken)
    assert kl_of(unbroken)[3] > 0
    assert_equal_weights(unbroken, resumed)


def test_a_checkpoint_that_is_warm_started_again_is_anchored_to_the_warm_start(run, tmp_path):
    execute(small(path=run / "checkpoints" / "final"), tmp_path / "run")
    assert kl_of(tmp_path / "run") == {1: 0.0}


def test_a_run_resumed_after_its_warm_start_has_the_same_anchor(run, tmp_path):
    chosen = small(**PUSHED, steps=2)
    folder = RunFolder(tmp_path / "run").create()
    folder.recipe.write_text(chosen.to_toml())
    shutil.copytree(run / "checkpoints" / "warm_start", folder.checkpoints / "warm_start")
    execute(chosen, folder.path, resume=True)
    assert kl_of(folder.path) == pytest.approx({step: kl_of(run)[step] for step in (1, 2)}, rel=1e-5)


@pytest.mark.parametrize("moves", [{"reference": {"reset_every": 2}}, {"trl": {"sync_ref_model": True}}])
def test_a_reference_that_moves_needs_a_kl_term(moves):
    with pytest.raises(RecipeError, match="but nothing reads it: set kl above 0"):
        small(kl=0.0, **moves)
