"""Co-Reward in a recipe: the two phrasings of a question are drawn together, and judge each other."""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import replace

import lookup_environment
import pytest
from lookup_runs import RECIPE, recipe

from agentgym import Budgets, EpisodeManager, RolloutConfig, Task, TaskSet
from agentgym.errors import RecipeError, TaskError
from agentgym.methods.adapt import Adapt
from agentgym.policy.scripted import ScriptedPolicy
from agentgym.rewards.majority_vote import CoReward
from agentgym.training import Recipe
from agentgym.training.checks.preflight import check_before_start
from agentgym.training.samplers import make_sampler


def paired_set() -> TaskSet:
    """The set of lookups; of its training tasks, two at a time ask the same."""
    task_set = lookup_environment.task_set()
    train = [replace(task, truth={"pair": index // 2}) for index, task in enumerate(task_set["train"])]
    splits = {"train": train, "validation": task_set["validation"], "held_out": task_set["held_out"]}
    return TaskSet(lookup_environment.NAME, splits, oracle=lookup_environment.oracle)


def test_both_phrasings_are_drawn_in_one_step_and_all_pairs_before_any_again():
    tasks = random.Random(0).sample(
        [Task(f"{pair}{word}", "test/none-v1", truth={"pair": pair}) for pair in range(6) for word in "ab"]
        + [Task(f"{pair}c", "test/none-v1", truth=truth) for pair, truth in enumerate(({"pair": 0}, "x", None, {}))],
        16,
    )
    sampler = make_sampler("paired", tasks, seed=3)
    steps = [sampler.draw(4, step) for step in range(3)]
    for drawn in [*steps, sampler.draw(4, 0, 1)]:
        assert [first.pair for first in drawn[::2]] == [second.pair for second in drawn[1::2]] != [None, None]
        assert len({task.id for task in drawn[:2]}) == 2
    assert sorted(drawn[at].pair for drawn in steps for at in (0, 2)) == list("012345")


def test_no_pair_and_an_odd_number_are_refused_with_what_to_do():
    tasks = [Task(f"t{index}", "test/none-v1", truth={"pair": index}) for index in range(4)]
    with pytest.raises(TaskError, match=r"no two of the 4 .* Give both tasks of a pair the same truth\['pair'\]"):
        make_sampler("paired", tasks, seed=0)
    pairs = [Task(f"t{index}", "test/none-v1", truth={"pair": index // 2}) for index in range(4)]
    assert len(make_sampler("paired", pairs, seed=0).draw(3, 0, further=1)) == 4, "dynamic asks for any number"
    with pytest.raises(RecipeError, match=r"train\.sampler = 'paired'.* cannot draw 3. Give an even number"):
        check_before_start(recipe(train__sampler="paired", train__tasks_per_step=3), paired_set())


@pytest.mark.parametrize("sampler", [{}, {"sampler": "curriculum"}])
@pytest.mark.parametrize("is_adapted", [False, True])
def test_a_reward_of_pairs_is_refused_with_a_sampler_that_does_not_draw_pairs(sampler, is_adapted):
    where = {"train": RECIPE["train"] | sampler} if is_adapted else {"reward": {"name": "co_reward"}}
    chosen = RECIPE | {"train": RECIPE["train"] | sampler} | where
    if is_adapted:
        chosen["train"] |= {"parts": {"adapt": {"reward": "co_reward"}}}
    with pytest.raises(RecipeError, match=r"no group could be judged\. Set train\.sampler = 'paired'"):
        check_before_start(Recipe.parse(chosen), paired_set())


def test_a_recipe_with_co_reward_is_accepted_at_once():
    chosen = Recipe.parse(RECIPE | {"reward": {"name": "co_reward"}, "train": RECIPE["train"] | {"sampler": "paired"}})
    started = time.monotonic()
    check_before_start(chosen, paired_set())
    assert time.monotonic() - started < 30, "the oracle's episode waited for a group that was never played"


def test_adaptation_keeps_which_tasks_ask_the_same_and_nothing_else_of_the_truth():
    task_set = paired_set()
    with_answers = [replace(task, truth={**task.truth, "answer": "7"}) for task in task_set["train"]]
    adapted = Adapt(reward="co_reward").training_tasks(
        TaskSet("x", {"train": with_answers, "validation": task_set["validation"]})
    )
    assert [task.truth for task in adapted["train"]] == [{"pair": str(index // 2)} for index in range(64)]


def test_one_sandbox_at_a_time_is_enough_for_two_groups_that_wait_for_each_other():
    tasks = make_sampler("paired", paired_set()["train"], seed=0).draw(2, 0)
    config = RolloutConfig(reward=CoReward(), concurrency=1, budgets=Budgets(time_s=20))
    manager = EpisodeManager(lambda task: ScriptedPolicy(lookup_environment.oracle(task)), config)
    episodes = asyncio.run(manager.collect(tasks, 2))
    assert [episode.valid for episode in episodes] == [True] * 4
    assert all("vote" in episode.outcome for episode in episodes)
