"""What is learnt beside the policy for its credit goes on, in a resumed run, where the checkpoint left it."""

from __future__ import annotations

import json
import shutil

import pytest
from lookup_environment import Right
from lookup_runs import RECIPE, assert_equal_weights, execute

from agentgym import Combined, Reward, register
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe


class VowelsInTheEnd(Reward):
    """Pays an episode for the vowels in it, so that the outcomes of random weights differ."""

    weights = {"vowels": 0.1}

    def outcome(self, episode):
        return {"vowels": float(sum(turn.message.text.count(vowel) for turn in episode.turns for vowel in "aeiou"))}


register("test_vowels_in_the_end", lambda: Combined(Right(), VowelsInTheEnd()), kind="rewards")


def learning(estimator: str) -> Recipe:
    data = json.loads(json.dumps(RECIPE))
    data["warm_start"]["steps"] = 10
    data["reward"] = {"name": "test_vowels_in_the_end"}
    data["train"] |= {"steps": 3, "save_every": 1, "keep_checkpoints": 5, "estimator": estimator}
    data["train"] |= {"validate_every": 3, "validate_tasks": 1}
    data["evaluate"]["tasks"] = 1
    return Recipe.parse(data)


@pytest.mark.parametrize(
    ("estimator", "loss"),
    [
        pytest.param("bilevel_gae", "critic/loss", marks=pytest.mark.thorough),
        pytest.param("spa", "progress/loss", marks=pytest.mark.thorough),
        pytest.param("hcapo", "hindsight/loss", marks=pytest.mark.thorough),
        ("rloo | rank_shaped | flow_tokens", "states/rank"),
    ],
)
def test_a_resumed_run_has_the_critic_contributions_hindsight_or_states_that_it_had(tmp_path, estimator, loss):
    finished, resumed = tmp_path / "finished", tmp_path / "resumed"
    execute(learning(estimator), finished)
    shutil.copytree(finished, resumed)
    for name in ("final", "checkpoint-3", "checkpoint-2"):
        shutil.rmtree(resumed / "checkpoints" / name)
    execute(learning(estimator), resumed, resume=True)
    assert_equal_weights(finished, resumed)
    first, second = ([row[loss] for row in RunFolder(f).metrics("train")] for f in (finished, resumed))
    assert first == second
