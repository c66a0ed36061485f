"""Budgets that follow the training step, and stop rules, in a whole run: training has them and measurements do not."""

from __future__ import annotations

import io
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from lookup_runs import assert_equal_weights, execute, recipe
from rich.console import Console

from agentgym import registry
from agentgym.errors import RecipeError
from agentgym.evaluation.record import Evaluation
from agentgym.messages import StopReason
from agentgym.methods.attempts import Attempts
from agentgym.rollout import EpisodeHook
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.training import Recipe, train
from agentgym.training.checks.preflight import check_before_start
from agentgym.training.recipe.episode_section import EpisodeSection


def test_the_cap_on_turns_changes_at_its_steps_and_nothing_else_does():
    section = EpisodeSection(
        max_turns=15,
        max_turn_tokens=300,
        schedule={"max_turns": [[0, 5], [100, 10], [200, 15]], "max_turn_tokens": [[0, 100], [101, 300]]},
    )
    turns = {step: section.budgets_at(step).max_turns for step in (0, 99, 100, 101, 199, 200, 10_000)}
    assert turns == {0: 5, 99: 5, 100: 10, 101: 10, 199: 10, 200: 15, 10_000: 15}
    assert [section.budgets_at(step).max_turn_tokens for step in (99, 100, 101)] == [100, 100, 300]
    assert section.budgets_at(99).max_episode_tokens == section.budgets.max_episode_tokens
    assert section.budgets.max_turns == 15
    assert EpisodeSection().budgets_at(7) == EpisodeSection().budgets


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"schedule": {"max_turns": [[10, 2]]}}, "episode.schedule.max_turns: the first pair begins at step 10"),
        ({"schedule": {"max_turns": [[0, 2], [5, 3], [5, 4]]}}, r"the steps \[0, 5, 5\] are not in ascending order"),
        ({"schedule": {"max_turns": [[0, 0]]}}, r"max_turns.0.1 = 0: Input should be greater than 0"),
        ({"schedule": {"max_turns": [[0, 2, 3]]}}, "episode.schedule.max_turns"),
        ({"schedule": {"max_turns": [[0, 2], [9, 5]]}}, "schedule.max_turns rises to 5, above max_turns = 4"),
        ({"schedule": {"turns": [[0, 2]]}}, "there is no key 'episode.schedule.turns'. Did you mean"),
        (
            {"stop_if": ["bored"]},
            "Nothing in episode_hooks is named 'bored'. Registered: attempts, hopeless, invalid_calls, no_progress",
        ),
        ({"stop_if": ["no_progress"]}, "NoProgress.turns is missing"),
        ({"stop_if": ["no_progress(turn=3)"]}, "Did you mean 'turns'"),
        ({"stop_if": ["repeated_state(times=1)"]}, "RepeatedState.times is 1"),
        ({"stop_if": ["no_progress(3)"]}, "has an option without a name"),
    ],
)
def test_bad_limits_are_refused_in_one_line(section, message):
    data = recipe().model_dump(exclude_none=True)
    data["episode"] |= section
    with pytest.raises(RecipeError, match=message):
        Recipe.parse(data)


def test_a_schedule_of_turns_and_starts_within_records_are_refused_together():
    chosen = recipe(train__gather=["starts"], episode__schedule={"max_turns": [[0, 2]]})
    with pytest.raises(RecipeError, match="begins within recorded episodes, whose turns count"):
        check_before_start(chosen, chosen.tasks.load())


def longest(folder: Path) -> dict[int, int]:
    """The most turns of the training episodes of each step."""
    ledger = Ledger(folder / "ledger.sqlite")
    turns: dict[int, int] = {}
    for episode in ledger.trajectories("train-"):
        step = int(episode.id.partition("/")[0].removeprefix("train-"))
        turns[step] = max(turns.get(step, 0), len(episode.turns))
    ledger.close()
    return turns


LABELS = ("train-", "held-out-", "demo")
LIMITED = dict(
    episode__schedule={"max_turns": [[0, 1], [2, 2], [3, 4]]},
    episode__max_episode_tokens=600,
    episode__max_turn_tokens=16,
    train__save_every=1,
    train__keep_checkpoints=9,
    # A model that has learnt nothing writes on until a budget ends its turn, and so uses all of its turns.
    warm_start__steps=0,
    warm_start__validate_every=50,
)


@pytest.mark.parametrize("staleness", [pytest.param(0, marks=pytest.mark.thorough), 1])
def test_episodes_have_the_budgets_of_their_step_also_when_the_run_is_resumed(tmp_path, staleness):
    chosen = recipe(**LIMITED, train__staleness=staleness)
    finished, resumed = tmp_path / "finished", tmp_path / "resumed"
    execute(chosen, finished)
    assert longest(finished) == {0: 1, 1: 1, 2: 2, 3: 3}, "three turns without a call end an episode"
    held_out = Evaluation.load(finished / "evaluation" / "before.json")
    assert max(row.turns[0] for row in held_out.rows) == 3, "a measurement has the full budget"
    shutil.copytree(finished, resumed)
    for name in ("final", "checkpoint-4", "checkpoint-3", "checkpoint-2"):
        shutil.rmtree(resumed / "checkpoints" / name, ignore_errors=True)
    execute(chosen, resumed, resume=True)
    assert longest(resumed) == longest(finished)
    if not staleness:  # a streamed run depends on which groups were ready
        assert_equal_weights(finished, resumed)


def test_stop_rules_hold_in_training_alone_unless_the_evaluation_names_some(tmp_path):
    rules = ["repeated_state(times=2)"]
    for name, rules_there in (("plain", []), ("with_rules", rules)):
        folder = tmp_path / name
        chosen = recipe(
            **(LIMITED | {"episode__schedule": {}}),
            tasks__set="text/doors-v1",
            tasks__tags=["horizon_2"],
            train__steps=1,
            episode__stop_if=rules,
            evaluate__stop_if=rules_there,
            evaluate__max_turns=2,
            evaluate__tasks=8,
        )
        execute(chosen, folder)
        ledger = Ledger(folder / "ledger.sqlite")
        stops = {
            label: [t.stop_reason for t in ledger.trajectories(label)] for label in ("train-", "held-out-", "demo")
        }
        reasons = {t.provenance.hopeless for t in ledger.trajectories("train-")}
        ledger.close()
        assert StopReason.HOPELESS in stops["train-"]
        assert reasons <= {"the same state 2 times", None}
        assert (StopReason.HOPELESS in stops["held-out-"]) == bool(rules_there)
        assert (StopReason.MAX_TURNS in stops["held-out-"]) != bool(rules_there)
        assert StopReason.HOPELESS not in stops["demo"]
        [row] = RunFolder(folder).metrics("train")
        assert row["truncated"] > 0
        assert json.loads((folder / "evaluation" / "after.json").read_text())


def test_a_hook_of_another_package_is_named_in_a_recipe_with_its_options(monkeypatch):
    """In training and in every measurement; it is registered under the kind `episode_hooks`."""

    @dataclass(frozen=True)
    class Reminder(EpisodeHook):
        every: int = 2

    monkeypatch.setitem(registry._registered["episode_hooks"], "reminder", Reminder)
    chosen = recipe(episode__hooks=["reminder(every=3)"], episode__attempts={"n": 3}, episode__stop_if=["hopeless"])
    config = chosen.episode.config(seed=0, reward=None)
    assert config.hooks == (Reminder(every=3),)
    assert config.episode_hooks == (Reminder(every=3), Attempts(n=3)), "the rules are those of reinforcement alone"
    with pytest.raises(RecipeError, match="reminder"):
        recipe(episode__hooks=["reminder(often=3)"])


def test_a_run_says_at_each_measurement_and_step_which_budgets_cut_how_much(tmp_path):
    """A model that has learnt nothing writes messages of 16 tokens until they are cut, three in a row."""
    output = io.StringIO()
    limited = LIMITED | {"episode__schedule": {}, "episode__max_turns": 2}
    chosen = recipe(**limited, train__steps=1, evaluate__tasks=8)
    train(chosen, folder=tmp_path / "run", console=Console(file=output, width=400))
    text = output.getvalue()
    [row] = RunFolder(tmp_path / "run").metrics("train")
    turns, messages = int(row["cut/max_turns"]), int(row["cut/max_turn_tokens"])
    assert 4 <= turns <= 8
    assert messages >= 2 * turns
    assert "held-out before, cut off: " in text
    assert "held-out after, cut off: " in text
    assert re.search(r"[4-8] of 8 episodes by episode.max_turns", text)
    [step] = [line for line in text.splitlines() if line.startswith("reinforcement 1/1")]
    of_step = f"{messages} messages by episode.max_turn_tokens; {turns} episodes by episode.max_turns"
    assert f"cut off: {of_step}" in step
