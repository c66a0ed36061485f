"""Tasks that need more turns than a config allows are told of before they are played."""

from __future__ import annotations

import warnings

import pytest

from agentgym import Budgets, Message, RolloutConfig, ScriptedPolicy, Task, TaskSet, evaluate, load_task_set
from agentgym.evaluation.runner import warn_of_few_turns
from agentgym.testing import Counter, TargetReached


@pytest.mark.parametrize("name", ["sql/session-v1", "text/doors-v1", "text/locks-v1", "code/chores-v1"])
def test_a_task_of_many_requests_needs_as_many_turns(name):
    tasks = list(load_task_set(name)["train"])[:200]
    with pytest.warns(
        UserWarning, match=r"of 200 tasks cannot be solved within max_turns = 3.*up to \d+ turns. Give max_turns="
    ):
        warn_of_few_turns(tasks, RolloutConfig(budgets=Budgets(max_turns=3)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_few_turns(tasks, RolloutConfig(budgets=Budgets(max_turns=40)))


async def test_an_evaluation_warns_of_tasks_that_name_more_turns_than_it_allows():
    tasks = [Task(f"t{n}", "test/counter-v1", split="held_out", parameters={"least_turns": n}) for n in (1, 5, 9)]
    config = RolloutConfig(environment=Counter, reward=TargetReached(), budgets=Budgets(max_turns=4))
    with pytest.warns(
        UserWarning, match="2 of 3 tasks cannot be solved within max_turns = 4.*up to 9 turns. Give max_turns=9 or more"
    ):
        await evaluate(
            lambda task: ScriptedPolicy([Message("assistant", "I give up.")]),
            TaskSet("test/counters-v1", {"held_out": tasks}),
            config=config,
        )
