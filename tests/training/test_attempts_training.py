"""A whole recipe whose episodes have two attempts: what is paid, logged and measured."""

from __future__ import annotations

import io
import sys
from pathlib import Path

from rich.console import Console

from agentgym.evaluation.record import Evaluation
from agentgym.storage.ledger import Ledger
from agentgym.training import Recipe, train

sys.path.insert(0, str(Path(__file__).parent))
import lookup_environment

SCORE = {  # the two phases of SCoRe, as docs/curriculum.md has them
    "name": "two-attempts",
    "tasks": {"set": lookup_environment.PRESS},
    "policy": {"tiny": {"vocabulary": 300, "hidden": 32, "layers": 2, "heads": 2, "kv_heads": 1}},
    "episode": {"max_turns": 4, "max_episode_tokens": 300, "max_turn_tokens": 40, "attempts": {"n": 2}},
    "reward": {
        "weights": {"improvement": 10.0},
        "schedules": {"improvement": {"start": 0.0, "end": 1.0, "finish": 0.5, "shape": "step"}},
    },
    "warm_start": {
        "demonstrations": 32,
        "imperfect_oracle": 0.5,
        "steps": 20,
        "batch_size": 16,
        "validate_every": 20,
        "validate_tasks": 4,
    },
    "train": {
        "steps": 2,
        "tasks_per_step": 2,
        "group_size": 4,
        "save_every": 2,
        "validate_every": 2,
        "validate_tasks": 4,
        "reference": {"kind": "fixed"},
        "terms": {
            "reference_kl": {
                "options": {"first_attempt": True},
                "schedule": {"start": 1.0, "end": 0.1, "finish": 0.5, "shape": "step"},
            }
        },
    },
    "evaluate": {"temperature": 1.0},
    "machine": {"device": "cpu", "threads": 1},
}


def test_a_recipe_trains_and_measures_two_attempts(tmp_path):
    train(Recipe.parse(SCORE), folder=tmp_path, console=Console(file=io.StringIO()))
    ledger = Ledger(tmp_path / "ledger.sqlite")
    steps = [list(ledger.trajectories(f"train-00000{step}")) for step in range(2)]
    ledger.close()
    for episodes, weight in zip(steps, (0.0, 10.0), strict=True):
        assert len(episodes) == 8
        assert {episode.weights["improvement"] for episode in episodes} == {weight}
        for episode in episodes:
            assert episode.outcome["improvement"] == episode.outcome["last"] - episode.outcome["first"]
            assert episode.return_from() == episode.success + weight * episode.outcome["improvement"]
    assert max(len(episode.turns) for episodes in steps for episode in episodes) >= 2
    after = Evaluation.load(tmp_path / "evaluation" / "after.json")
    assert after.attempts()["last"].value == after.success().value
