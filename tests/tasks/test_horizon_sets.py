"""Task sets with a horizon: equal sub-tasks over a known number of turns. What all of them have in common."""

from __future__ import annotations

from collections import Counter

import pytest

from agentgym import Budgets, EpisodeManager, RolloutConfig, ScriptedPolicy, load_task_set
from agentgym.messages import StopReason

TRAINED, RESERVED = (2, 4, 8, 16, 32), (3, 6, 12, 24)
KINDS = {"text/doors-v1": ("every_door", "first_door"), "web/long-form-v1": ("horizon",)}
IN_MEMORY = pytest.mark.parametrize("name", ["text/doors-v1"])  # the others are played in the tests of their sandbox
every_set = pytest.mark.parametrize("name", KINDS)


async def play(task_set, tasks, player):
    manager = EpisodeManager(
        lambda task: ScriptedPolicy(getattr(task_set, player)(task)), RolloutConfig(budgets=Budgets(max_turns=40))
    )
    return await manager.collect(tasks)


def kind_of(task, name):
    """The first of the set's kinds whose tag the task has, by its name or with its horizon."""
    return next(kind for kind in KINDS[name] if {kind, f"{kind}_{task.parameters['horizon']}"} & set(task.tags))


def some_of_each(tasks, count):
    """The first tasks of each horizon and kind."""
    by_tags = {}
    for task in tasks:
        by_tags.setdefault(task.tags, []).append(task)
    return [task for group in by_tags.values() for task in group[:count]]


@every_set
def test_every_horizon_and_kind_has_as_many_tasks_as_the_card_says(name):
    task_set = load_task_set(name)
    for stratum, horizons, count in (
        ("train", TRAINED, 400),
        ("validation", TRAINED, 40),
        ("unseen_instances", TRAINED, 40),
        ("unseen_horizons", RESERVED, 40),
    ):
        tasks = task_set["held_out" if stratum.startswith("unseen") else stratum]
        tasks = [task for task in tasks if not stratum.startswith("unseen") or stratum in task.tags]
        expected = {(horizon, kind): count for horizon in horizons for kind in KINDS[name]}
        kinds = Counter((task.parameters["horizon"], kind_of(task, name)) for task in tasks)
        assert kinds == expected
        for task in tasks:
            assert f"horizon_{task.parameters['horizon']}" in task.tags


def combinations_of(task):
    """The values that are offered together in each of a task's steps."""
    if "rooms" in task.parameters:
        return {frozenset(room.partition(": ")[2].split()) for room in task.parameters["rooms"]}
    return {frozenset(step["options"]) for step in task.parameters["data"]["steps"]}


@every_set
def test_what_unseen_instances_offer_together_no_other_task_does(name):
    task_set = load_task_set(name)
    offered = {True: set(), False: set()}
    for split in task_set.values():
        for task in split:
            offered["unseen_instances" in task.tags] |= combinations_of(task)
    assert offered[True]
    assert offered[True].isdisjoint(offered[False])
    assert set().union(*offered[True]) <= set().union(*offered[False]), "single values are known from training"


@IN_MEMORY
async def test_the_oracle_solves_each_horizon_in_as_many_turns(name):
    task_set = load_task_set(name)
    tasks = some_of_each([*task_set["validation"], *task_set["held_out"]], 3)
    for episode in await play(task_set, tasks, "oracle"):
        assert (episode.success, episode.stop_reason) == (1.0, StopReason.ENVIRONMENT), episode.task.id
        assert len(episode.turns) == episode.task.parameters["horizon"], episode.task.id


@every_set
def test_prompts_of_all_horizons_are_equally_long(name):
    task_set = load_task_set(name)
    lengths = {(kind_of(task, name), len(task.prompt.split())) for split in task_set for task in task_set[split]}
    assert len(lengths) == len(KINDS[name])


async def test_the_imperfect_oracle_takes_half_of_the_keys_wrongly_and_each_for_itself():
    task_set = load_task_set("text/doors-v1")
    tasks = [task for task in task_set["train"] if "every_door_8" in task.tags][:200]
    episodes = await play(task_set, tasks, "imperfect_oracle")
    right = [
        [after.potential > before.potential for before, after in zip(e.turns, e.turns[1:], strict=False)]
        for e in episodes
    ]
    assert [sum(column) / len(column) for column in zip(*right, strict=True)] == pytest.approx([0.5] * 7, abs=0.12)
    both = sum(row[index] and row[index + 1] for row in right for index in range(6)) / (6 * len(right))
    assert both == pytest.approx(0.25, abs=0.05)
    first = [task for task in task_set["train"] if "first_door_8" in task.tags][:200]
    success = [episode.success for episode in await play(task_set, first, "imperfect_oracle")]
    assert sum(success) / len(success) == pytest.approx(0.5, abs=0.12)
