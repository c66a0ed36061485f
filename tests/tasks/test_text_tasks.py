"""`text/<world>-v1`: as large as the card says, split apart, solvable throughout, and not by luck."""

from __future__ import annotations

from collections import Counter

import pytest

from agentgym import Message, load_task_set
from agentgym.errors import TaskError
from agentgym.policy.scripted import ScriptedPolicy
from agentgym.registry import load, names
from agentgym.rollout import Budgets, EpisodeManager, RolloutConfig
from agentgym.testing.agents import _random_agent

SETS = [name for name in names("task_sets") if name.startswith("text/")]
every_set = pytest.mark.parametrize("name", SETS)


async def play(tasks, script_for):
    manager = EpisodeManager(
        lambda task: ScriptedPolicy(script_for(task)), RolloutConfig(budgets=Budgets(max_turns=24))
    )
    played = await manager.collect(tasks)
    assert [t.error for t in played if t.error] == []
    return sum(t.success for t in played) / len(played)


def test_every_world_has_a_set():
    worlds = [name.replace("agentgym/text-", "text/") for name in names("environments") if "/text-" in name]
    assert worlds == SETS


@every_set
def test_the_set_is_as_large_as_its_card_says_and_asks_nothing_twice(name):
    found = load_task_set(name)
    strata = Counter(tag for task in found["held_out"] for tag in task.tags if tag.startswith("unseen"))
    train = 2_400 if "adventure" in name else 1_200
    assert {split: len(found[split]) for split in found} == {"train": train, "validation": 120, "held_out": 240}
    assert strata == {"unseen_instances": 120, "unseen_kinds": 120}
    assert len({task.content_key() for split in found for task in found[split]}) == train + 360


@every_set
def test_levels_of_the_unseen_kinds_are_harder_and_never_trained_on(name):
    found = load_task_set(name)
    levels = {stratum: {task.difficulty for task in found["held_out"] if stratum in task.tags}
              for stratum in ("unseen_instances", "unseen_kinds")}  # fmt: skip
    trained = {task.difficulty for split in ("train", "validation") for task in found[split]}
    assert levels["unseen_instances"] == trained
    assert min(levels["unseen_kinds"]) > max(trained)


@every_set
async def test_the_oracle_solves_a_sample_of_every_split_and_stratum(name):
    found = load_task_set(name)
    tasks = [*found["train"][::40], *found["validation"][::12], *found["held_out"][::6]]
    assert await play(tasks, found.oracle) == 1.0


@every_set
async def test_doing_nothing_or_anything_scores_nothing(name):
    found = load_task_set(name)
    tasks = found["held_out"][::4]
    tools = list(load("environments", tasks[0].environment).tools.values())
    assert await play(tasks, lambda task: lambda messages: Message("assistant", "")) == 0.0
    assert await play(tasks, lambda task: _random_agent(tools, task.id)) <= 0.02


@pytest.mark.parametrize(("name", "most"), [("adventure", 0.1), ("wordle", 0.35), ("frozen-lake", 0.25)])
async def test_the_imperfect_oracle_knows_the_tools_and_rarely_succeeds(name, most):
    found = load_task_set(f"text/{name}-v1")
    assert 0.0 <= await play(found["validation"], found.imperfect_oracle) <= most


def test_another_seed_asks_otherwise():
    from agentgym.tasks.text import number_guess

    other = number_guess(seed=1)
    assert other.fingerprint() != number_guess().fingerprint()


@pytest.mark.parametrize("name", ["countdown", "number-guess", "twenty-questions", "wordle"])
async def test_where_one_call_solves_a_task_trainers_know_it(name):
    """Information gain asks how likely that call is after each turn."""
    found = load_task_set(f"text/{name}-v1")
    assert await play(found["validation"][:20], lambda task: lambda messages: found.answer(task)) == 1.0


def test_a_set_may_be_narrowed_by_tags_and_keeps_its_players():
    found = load_task_set("text/number-guess-v1")
    easy = found.tagged("level_0", "level_1")
    assert {task.difficulty for split in easy for task in easy[split]} == {0.0, 1.0}
    assert 300 < len(easy["train"]) < 500
    assert (easy.name, easy.oracle, easy.imperfect_oracle, easy.answer) == (
        found.name,
        found.oracle,
        found.imperfect_oracle,
        found.answer,
    )
    with pytest.raises(TaskError, match=r"no training task is tagged level_77\. Tags are level_0, level_1"):
        found.tagged("level_77")
