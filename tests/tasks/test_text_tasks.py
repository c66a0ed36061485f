"""`text/<game>-v1`: sizes as in the card, disjoint splits, all tasks solvable, and not by luck."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

import pytest

from agentgym import Budgets, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, load_task_set
from agentgym.errors import TaskError
from agentgym.registry import load, names
from agentgym.testing.episode_checks import _random_agent

# of other sizes and strata: test_text_craft.py, test_horizon_sets.py, test_text_locks.py
OTHERS = ["text/craft-v1", "text/doors-v1", "text/locks-v1"]
SETS = [name for name in names("task_sets") if name.startswith("text/") and name not in OTHERS]
every_set = pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.together(name)) for name in SETS])
built_set = lru_cache(maxsize=1)(load_task_set)
"""The set of the last test: those of one set follow one another, and building it takes most of their time."""


async def play(tasks, script_for):
    manager = EpisodeManager(
        lambda task: ScriptedPolicy(script_for(task)), RolloutConfig(budgets=Budgets(max_turns=24))
    )
    trajectories = await manager.collect(tasks)
    assert [t.error for t in trajectories if t.error] == []
    return sum(t.success for t in trajectories) / len(trajectories)


def test_every_text_game_has_a_set():
    expected_sets = [name.replace("agentgym/text-", "text/") for name in names("environments") if "/text-" in name]
    assert sorted(expected_sets) == sorted([*SETS, *OTHERS])


@every_set
def test_the_set_is_as_large_as_its_card_says_and_asks_nothing_twice(name):
    task_set = built_set(name)
    strata = Counter(tag for task in task_set["held_out"] for tag in task.tags if tag.startswith("unseen"))
    train = 2_400 if "adventure" in name else 1_200
    assert {split: len(task_set[split]) for split in task_set} == {"train": train, "validation": 120, "held_out": 240}
    assert strata == {"unseen_instances": 120, "unseen_kinds": 120}
    assert len({task.content_key() for split in task_set for task in task_set[split]}) == train + 360


@every_set
def test_levels_of_the_unseen_kinds_are_harder_and_never_trained_on(name):
    task_set = built_set(name)
    levels = {
        stratum: {task.difficulty for task in task_set["held_out"] if stratum in task.tags}
        for stratum in ("unseen_instances", "unseen_kinds")
    }
    trained = {task.difficulty for split in ("train", "validation") for task in task_set[split]}
    assert levels["unseen_instances"] == trained
    assert min(levels["unseen_kinds"]) > max(trained)


@every_set
async def test_the_oracle_solves_a_sample_of_every_split_and_stratum(name):
    task_set = built_set(name)
    tasks = [*task_set["train"][::40], *task_set["validation"][::12], *task_set["held_out"][::6]]
    assert await play(tasks, task_set.oracle) == 1.0


@every_set
async def test_doing_nothing_or_anything_scores_nothing(name):
    task_set = built_set(name)
    tasks = task_set["held_out"][::4]
    tools = list(load("environments", tasks[0].environment).tools.values())
    assert await play(tasks, lambda task: lambda messages: Message("assistant", "")) == 0.0
    assert await play(tasks, lambda task: _random_agent(tools, task.id)) <= 0.02


@pytest.mark.parametrize(("name", "highest"), [("adventure", 0.1), ("wordle", 0.35), ("frozen-lake", 0.25)])
async def test_the_imperfect_oracle_knows_the_tools_and_rarely_succeeds(name, highest):
    task_set = built_set(f"text/{name}-v1")
    assert 0.0 <= await play(task_set["validation"], task_set.imperfect_oracle) <= highest


def test_another_seed_asks_otherwise():
    from agentgym.tasks.text import number_guess

    other_set = number_guess(seed=1)
    assert other_set.fingerprint() != number_guess().fingerprint()


@pytest.mark.parametrize("name", ["countdown", "number-guess", "twenty-questions", "wordle"])
async def test_where_one_call_solves_a_task_trainers_know_it(name):
    """Information gain asks how likely that call is after each turn."""
    task_set = built_set(f"text/{name}-v1")
    assert await play(task_set["validation"][:20], lambda task: lambda messages: task_set.answer(task)) == 1.0


def test_a_set_may_be_narrowed_by_tags_and_keeps_its_players():
    task_set = built_set("text/number-guess-v1")
    easy = task_set.tagged("level_0", "level_1")
    assert {task.difficulty for split in easy for task in easy[split]} == {0.0, 1.0}
    assert 300 < len(easy["train"]) < 500
    assert (easy.name, easy.oracle, easy.imperfect_oracle, easy.answer) == (
        task_set.name,
        task_set.oracle,
        task_set.imperfect_oracle,
        task_set.answer,
    )
    with pytest.raises(TaskError, match=r"no training task with the tags level_77\. Its tags are: level_0, level_1"):
        task_set.tagged("level_77")
