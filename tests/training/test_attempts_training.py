"""A recipe as a user runs it, whose episodes have two attempts and are refined: what is paid, logged and measured."""

from __future__ import annotations

import os

import lookup_environment
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.evaluation.record import Evaluation
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder

RECIPE = f"""
name = "two-attempts"
tasks.set = "{lookup_environment.PRESS}"
policy.tiny = {{ vocabulary = 300, hidden = 32, layers = 2, heads = 2, kv_heads = 1 }}
episode = {{ max_turns = 4, max_episode_tokens = 400, max_turn_tokens = 40, attempts = {{ n = 2 }} }}
evaluate.temperature = 1.0
machine = {{ device = "cpu", threads = 1 }}

[reward]
also = ["worked_solution"]
weights = {{ improvement = 10.0 }}
schedules = {{ improvement = {{ start = 0.0, end = 1.0, finish = 0.5, shape = "step" }} }}

[warm_start]
demonstrations = 32
imperfect_oracle = 0.5
steps = 120
batch_size = 8
optimizer = "muon"
learning_rate = 8e-3
validate_every = 120
validate_tasks = 4

[train]
steps = 2
tasks_per_step = 2
group_size = 4
gather = ["refined"]
objective = "critique_grpo"
save_every = 2
validate_every = 2
validate_tasks = 4
reference = {{ kind = "fixed" }}

[train.terms.reference_kl]  # the two phases of SCoRe, as docs/curriculum.md has them
options = {{ first_attempt = true }}
schedule = {{ start = 1.0, end = 0.1, finish = 0.5, shape = "step" }}
"""


def test_a_recipe_trains_and_measures_two_attempts_and_refinements(tmp_path):
    (tmp_path / "recipe.toml").write_text(RECIPE, encoding="utf-8")
    words = ["train", tmp_path / "recipe.toml", "--out", tmp_path / "run", "--import", lookup_environment.__file__]
    done = CliRunner().invoke(app, [str(word) for word in words], env={**os.environ, "COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    ledger = Ledger(tmp_path / "run" / "ledger.sqlite")
    steps = [list(ledger.trajectories(f"train-00000{step}")) for step in range(2)]
    ledger.close()
    refined = [[t for t in episodes if t.provenance.assistance is not None] for episodes in steps]
    for episodes, refinements, weight in zip(steps, refined, (0.0, 10.0), strict=True):
        assert len(episodes) - len(refinements) == 8
        assert {episode.weights["improvement"] for episode in episodes} == {weight}
        for episode in episodes:
            assert episode.outcome["improvement"] == episode.outcome["last"] - episode.outcome["first"]
            assert episode.return_from() == episode.success + weight * episode.outcome["improvement"]
        for episode in refinements:
            assert episode.provenance.assistance.kind == "critique"
            assert "What is to be said of it:\nPress right." in episode.opening[0].text
    assert max(len(episode.turns) for episodes in steps for episode in episodes) >= 2
    rows = RunFolder(tmp_path / "run").metrics("train")
    assert sum(row.get("gather/assisted", 0) for row in rows) > 0, "a refinement is trained on"
    for row, episodes in zip(rows, steps, strict=True):
        assert row["gather/episodes"] == len(episodes)
        assert row["loss/objective"] != 0
    after = Evaluation.load(tmp_path / "run" / "evaluation" / "after.json")
    assert after.attempts()["last"].value == after.success().value
