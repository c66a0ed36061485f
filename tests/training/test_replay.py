"""A recipe whose critic learns from earlier steps: it trains, resumes bit-equal, and refuses what cannot work."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from lookup_runs import RECIPE, assert_equal_weights, execute

from agentgym.errors import RecipeError
from agentgym.registry import load_task_set
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe
from agentgym.training.checks.preflight import check_before_start


def replaying(**signals) -> Recipe:
    data = json.loads(json.dumps(RECIPE))
    data["warm_start"]["steps"] = 10
    data["reward"] = {"name": "test_vowels"}  # pays differently even what random weights write
    data["train"] |= {
        "steps": 3,
        "save_every": 1,
        "keep_checkpoints": 5,
        "estimator": "archer",
        "signals": {"replay": {"updates": 2, "batch_size": 8, **signals}},
    }
    return Recipe.parse(data)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("replay") / "run"
    execute(replaying(half_life=2.0), folder)
    return folder


def test_the_store_grows_from_step_to_step_and_its_turns_age(finished):
    rows = RunFolder(finished).metrics("train")
    stored = [row["critic/stored"] for row in rows]
    assert stored == sorted(stored)
    assert stored[0] < stored[-1]
    assert rows[0]["critic/age"] == 0.0 < rows[-1]["critic/age"]
    assert rows[0]["critic/effective_share"] == pytest.approx(1.0, abs=1e-3), "what was just sampled needs no weights"


def test_a_resumed_run_has_the_critic_and_the_store_that_it_had(finished, tmp_path):
    resumed = tmp_path / "run"
    shutil.copytree(finished, resumed)
    for name in ("final", "checkpoint-3", "checkpoint-2"):
        shutil.rmtree(resumed / "checkpoints" / name)
    execute(replaying(half_life=2.0), resumed, resume=True)
    assert_equal_weights(finished, resumed)
    first, second = (RunFolder(folder).metrics("train")[-1]["critic/loss"] for folder in (finished, resumed))
    assert first == second


def test_a_run_can_begin_with_the_episodes_of_another_one(finished, tmp_path):
    """The other run made its own tokenizer of the same demonstrations, so the tokens are the same."""
    chosen = replaying(runs=[str(finished)])
    check_before_start(chosen, load_task_set(chosen.tasks.set))
    execute(chosen, tmp_path / "run")
    first, own = (RunFolder(folder).metrics("train")[0]["critic/stored"] for folder in (tmp_path / "run", finished))
    assert first > own


@pytest.mark.parametrize(
    ("train", "policy", "message"),
    [
        ({"estimator": "rloo"}, {}, r"train\.signals\.replay is an option of .*values.*'rloo' requires none"),
        (
            {"estimator": "rloo", "signals": {"rank_every": 20}},
            {},
            r"rank_every is an option of .*rank_deviations.*'rloo' requires none",
        ),
        ({"estimator": "rloo", "signals": {"double": True}}, {}, r"train\.signals\.double is an option of .*values"),
        ({"signals": {"replay": {"runs": ["no/run"]}}}, {}, r"replay\.runs: 'no/run' is not a run folder"),
        ({}, {"logit_hook": "known_tools"}, "scores stored turns without masks"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(train, policy, message):
    data = replaying().model_dump(exclude_none=True)
    data["train"] |= train
    data["policy"] |= policy
    chosen = Recipe.parse(data)
    with pytest.raises(RecipeError, match=message):
        check_before_start(chosen, load_task_set(chosen.tasks.set))
