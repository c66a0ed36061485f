"""Every registered task set keeps the contract; the bundled ones are those that results were measured on."""

from __future__ import annotations

from collections import Counter

import pytest
from built_sets import built_set, each_task_set, one_of_each_reward
from pins import PINS

from agentgym import EpisodeManager, ScriptedPolicy, TaskSet, close_backends, load
from agentgym.methods.contamination import contamination
from agentgym.testing import check_reward, check_task_set
from agentgym.testing.hidden_truth import shown_truth

SAMPLE = 20


@pytest.mark.needs_namespaces
@each_task_set(by_day=one_of_each_reward())
async def test_the_declared_reward_keeps_its_contract_on_solved_episodes(name):
    """Whole, and cut short in every way."""
    task_set = built_set(name)
    task = task_set["validation"][0]
    if reason := load("environments", task.environment).unavailable_reason():
        pytest.skip(f"{task.environment}: {reason}")
    solved = await EpisodeManager(lambda task: ScriptedPolicy(task_set.oracle(task))).collect([task])
    if error := next((trajectory.error for trajectory in solved if trajectory.error), ""):
        assert error.startswith("MissingExtraError") or "not installed. Run: apt-get" in error, error
        pytest.skip(error)
    assert [trajectory.success for trajectory in solved] == [1.0]
    await check_reward(load("environments", task.environment).reward, solved)
    await close_backends()


@each_task_set()
def test_a_task_set_keeps_its_contract(name):
    task_set = built_set(name)
    assert task_set.name == name
    check_task_set(task_set)
    assert all(len(tasks) for tasks in task_set.values())
    assert task_set.oracle is not None
    if name in PINS["task_sets"]:
        assert task_set.fingerprint() == PINS["task_sets"][name], "Other tasks need another -vN: see docs/stability.md"
        check_no_task_is_there_twice(task_set)
        check_no_held_out_task_is_in_training(task_set)
        check_held_out_tasks_have_a_tag_of_their_own(task_set)
        check_no_prompt_shows_its_truth(task_set)
        check_the_oracle_begins_with_calls_that_the_environment_takes(task_set)


def check_no_task_is_there_twice(task_set: TaskSet) -> None:
    contents = Counter(task.content_key() for tasks in task_set.values() for task in tasks)
    assert max(contents.values()) == 1
    ids = Counter(task.id for tasks in task_set.values() for task in tasks)
    assert max(ids.values()) == 1


def check_no_held_out_task_is_in_training(task_set: TaskSet) -> None:
    """Not reworded either: the words of the tasks are compared."""
    report = contamination(list(task_set["train"]), [*task_set["validation"], *task_set["held_out"]])
    assert report.leaked == 0, f"{report}, for example {report.overlaps[0]}"


def check_held_out_tasks_have_a_tag_of_their_own(task_set: TaskSet) -> None:
    """A tag such as `unseen_names` says what training never shows, so no other split has it."""
    known = {tag for split in ("train", "validation") for task in task_set[split] for tag in task.tags}
    assert [task.id for task in task_set["held_out"] if known.issuperset(task.tags)] == []


def check_no_prompt_shows_its_truth(task_set: TaskSet) -> None:
    """`check_task_set` lets chance have a fifth of the prompts; ours need no chance."""
    for tasks in task_set.values():
        for task in tasks[:: max(1, len(tasks) // (5 * SAMPLE))]:
            prompt = "\n".join(message.text for message in task.opening())
            assert shown_truth(task.truth, prompt) is None, task.id


def check_the_oracle_begins_with_calls_that_the_environment_takes(task_set: TaskSet) -> None:
    """What follows depends on observations: the tests of each set play whole episodes of a sample."""
    for tasks in task_set.values():
        for task in tasks[:: max(1, len(tasks) // SAMPLE)]:
            script = task_set.oracle(task)
            message = script(task.opening()) if callable(script) else script[0]
            tools = load("environments", task.environment).tools
            assert message.calls or message.text, task.id  # one who serves somebody may begin with words
            for call in message.calls if tools else ():  # of a server they are known after a reset, not before
                tools[call.name].validate(call.arguments)
