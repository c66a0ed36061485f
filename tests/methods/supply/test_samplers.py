"""Which tasks a step plays: each sampler on outcomes that are made up, and what a checkpoint keeps of it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from agentgym import Task, Trajectory, Turn
from agentgym.errors import TaskError
from agentgym.messages import Message, StopReason
from agentgym.registry import names
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder
from agentgym.task.mixture import SOURCE
from agentgym.training.samplers import Sources, make_sampler, restore_sampler, save_sampler

TASKS = [
    Task(f"t{index}", "test/none-v1", "?", truth={"pair": index // 2}, tags=("all",), difficulty=index % 3)
    for index in range(12)
]
NEEDS_OPTIONS = {"tagged": "tagged(tag='all')", "pass_rate": "pass_rate(run='{run}', low=0.0, high=1.0)"}


def episode(task: Task, success: float, *, failed: bool = False) -> Trajectory:
    """An episode of one turn."""
    stop_reason = StopReason.INFRA_ERROR if failed else StopReason.ANSWERED
    turns = [Turn(0, Message("assistant", "x"))]
    return Trajectory(f"{task.id}#", task, turns=turns, outcome={"success": success}, stop_reason=stop_reason)


def groups_of(tasks: list[Task], success: dict[str, float]) -> list[list[Trajectory]]:
    """Two episodes of each task, which both succeed as often as `success` says."""
    return [[episode(task, success.get(task.id, 0.0)) for _ in range(2)] for task in tasks]


@pytest.fixture(scope="module")
def recorded_run(tmp_path_factory):
    """A run that played the first ten tasks twice; one of three always, half of the time, never with success."""
    folder = RunFolder(tmp_path_factory.mktemp("played"))
    ledger = Ledger(folder.ledger)

    async def record() -> None:
        for index, task in enumerate(TASKS[:10]):
            for sample in range(2):
                success = (1.0, float(sample), 0.0)[index % 3]
                trajectory = replace(episode(task, success), id=f"start/{task.id}#{sample}", sample=sample)
                ledger.begin(trajectory)
                await ledger.write_turn(trajectory, trajectory.turns[0])
                await ledger.finish(trajectory)

    asyncio.run(record())
    ledger.close()
    return folder.path


@pytest.mark.parametrize("name", names("samplers"))
def test_a_sampler_draws_tasks_of_its_own_and_goes_on_from_a_checkpoint_as_if_it_had_not_stopped(
    name, tmp_path, recorded_run
):
    name = NEEDS_OPTIONS.get(name, name).format(run=recorded_run)
    unbroken, resumed = make_sampler(name, TASKS, 7), make_sampler(name, TASKS, 7)
    assert unbroken.draw(6, 0) == unbroken.draw(6, 0), "the same step has the same tasks"
    assert any(make_sampler(name, TASKS, seed).draw(6, 0) != unbroken.draw(6, 0) for seed in range(5))
    success = {task.id: 0.25 * (index % 5) for index, task in enumerate(TASKS)}
    for step in range(4):
        drawn = unbroken.draw(6, step)
        assert len(drawn) == 6
        assert all(task in TASKS for task in drawn)
        metrics = unbroken.update(groups_of(drawn, success))
        assert all(np.isfinite(value) for value in metrics.values())
    save_sampler(unbroken, tmp_path)
    restore_sampler(resumed, tmp_path)
    assert json.loads(json.dumps(resumed.state())) == json.loads(json.dumps(unbroken.state()))
    assert resumed.draw(8, 9) == unbroken.draw(8, 9)
    unbroken.update([[episode(TASKS[0], 1.0, failed=True)]])
    assert resumed.state() == unbroken.state(), "a failed episode is no evidence"
    assert len(unbroken.draw(50, 0)) == 50, "more than there are tasks"
    further = unbroken.draw(6, 3, 1)
    assert len(further) == 6
    assert further == unbroken.draw(6, 3, 1)
    assert any(unbroken.draw(6, step, 1) != unbroken.draw(6, step) for step in range(20)), "further ones are others"
    with pytest.raises(TaskError):
        make_sampler(name, [], 7)


def test_tasks_that_are_solved_sometimes_are_drawn_most():
    sampler = make_sampler("learnable(uniform=0.0, memory=0.0)", TASKS, 0)
    success = {task.id: (0.0, 0.5, 1.0)[index % 3] for index, task in enumerate(TASKS)}
    first = Counter(task.id for step in range(300) for task in sampler.draw(1, step))
    assert len(first) == len(TASKS), "a task that was never played is tried"
    metrics = sampler.update(groups_of(TASKS, success))
    assert metrics == {"sampler/tried": 1.0, "sampler/learnability": pytest.approx(0.25 / 3)}
    assert {success[task.id] for step in range(50) for task in sampler.draw(4, step)} == {0.5}
    assert len({task.id for task in sampler.draw(4, 0)}) == 4, "no task twice"
    partly = make_sampler("learnable(uniform=0.0)", TASKS, 0)
    partly.update(groups_of(TASKS[:1], {TASKS[0].id: 0.5}))
    untried = {task.id for step in range(400) for task in partly.draw(1, step)}
    assert len(untried) == len(TASKS), "what was never played counts as solved half of the time"
    forgetful = make_sampler("learnable(uniform=1.0)", TASKS, 0)
    forgetful.update(groups_of(TASKS, success))
    assert {success[task.id] for step in range(50) for task in forgetful.draw(4, step)} == {0.0, 0.5, 1.0}


def test_a_state_of_other_tasks_is_refused(tmp_path):
    sampler = make_sampler("learnable", TASKS, 0)
    sampler.update(groups_of(TASKS, {}))
    save_sampler(sampler, tmp_path)
    with pytest.raises(TaskError, match="no task 't10'"):
        restore_sampler(make_sampler("learnable", TASKS[:5], 0), tmp_path)


def test_tasks_that_a_recorded_run_solved_sometimes_are_trained_on_also_once_the_run_is_gone(recorded_run, tmp_path):
    sampler = make_sampler(f"pass_rate(run='{recorded_run}')", TASKS, 0)
    assert {task.id for step in range(9) for task in sampler.draw(3, step)} == {"t1", "t4", "t7"}
    save_sampler(sampler, tmp_path)
    wider = make_sampler(f"pass_rate(run='{recorded_run}', low=0.0)", TASKS, 0)
    restore_sampler(wider, tmp_path)
    assert wider.draw(6, 4) == sampler.draw(6, 4), "a resumed run goes on with the tasks that it began with"
    for options, message in (
        (f"run='{recorded_run}', label='other'", "has no judged episode of the present training tasks"),
        (
            f"run='{recorded_run}', low=0.6, high=0.9",
            r"played 10 tasks, but solved none of them in 0.6 to 0.9 of its episodes",
        ),
        (f"run='{tmp_path}'", "is not a run folder with a ledger"),
    ):
        with pytest.raises(TaskError, match=message):
            make_sampler(f"pass_rate({options})", TASKS, 0)
    others = [replace(task, prompt=f"{task.prompt}!") for task in TASKS]
    with pytest.raises(TaskError, match="has no judged episode of the present training tasks"):  # of equal names
        make_sampler(f"pass_rate(run='{recorded_run}')", others, 0)


def spread_groups(tasks: list[Task], spread: dict[float, float]) -> list[list[Trajectory]]:
    """Two episodes of each task, whose returns lie as far from their mean as `spread` says of its difficulty."""
    return [[episode(task, 0.5 + sign * spread[task.difficulty]) for sign in (-1, 1)] for task in tasks]


def test_the_arm_that_teaches_most_is_drawn_most_and_no_arm_is_forgotten():
    """Three arms with mean absolute advantages of 0.1, 0.5 and 0.1."""
    sampler, drawn, first_draw = make_sampler("ucb", TASKS, 0), Counter(), {}
    for step in range(400):
        (task,) = sampler.draw(1, step)
        drawn[task.difficulty] += 1
        first_draw.setdefault(task.difficulty, step)
        metrics = sampler.update(spread_groups([task], {0: 0.1, 1: 0.5, 2: 0.1}))
    assert drawn[1] / 400 > 0.6
    assert max(first_draw.values()) < 400**0.5, "an arm that was never drawn is tried soon"
    assert sum(metrics.values()) == pytest.approx(1.0)
    assert metrics["ucb/1"] == max(metrics.values())


def test_the_newest_groups_of_an_arm_count():
    sampler, task = make_sampler("ucb(window=1)", TASKS, 0), TASKS[0]
    sampler.update([[episode(task, 0.0), episode(task, 1.0)]])
    sampler.update([[episode(task, 1.0), episode(task, 1.0)]])
    assert sampler.state()["recent"][f"{task.difficulty:g}"] == [0.0]


def test_arms_may_be_environments_or_the_sets_of_a_mixture():
    tasks = [
        replace(task, environment=f"e{index % 2}", tags=(SOURCE + f"s{index % 3}",)) for index, task in enumerate(TASKS)
    ]
    arms = {
        over: set(make_sampler(f"ucb(over='{over}')", tasks, 0).probabilities())
        for over in ("environment", "source", "source_and_difficulty")
    }
    assert arms["environment"] == {"e0", "e1"}
    assert arms["source"] == {"s0", "s1", "s2"}
    assert len(arms["source_and_difficulty"]) == 3  # difficulty is index % 3 as well
    with pytest.raises(TaskError, match="has the arms"):
        make_sampler("ucb(over='source')", tasks, 0).load(make_sampler("ucb(over='environment')", tasks, 0).state())


def test_environments_of_different_hardness_have_caps_of_their_own():
    tasks = [
        Task(f"{name}{level}", f"test/{name}-v1", "?", difficulty=level)
        for name in ("easy", "hard")
        for level in range(5)
    ]
    sampler = make_sampler("adaptive(prompts=3, accuracy=0.8)", tasks, 0)
    drawn = Counter()
    for step in range(30):
        chosen = sampler.draw(4, step)
        drawn.update(task.environment for task in chosen)
        success = {task.id: float(task.environment == "test/easy-v1") for task in tasks}
        metrics = sampler.update(groups_of(chosen, success))
    assert metrics == {"curriculum/cap/test/easy-v1": 4, "curriculum/cap/test/hard-v1": 0}
    assert min(drawn.values()) > 40, "environments are drawn equally often"
    restored = make_sampler("adaptive(prompts=3, accuracy=0.8)", tasks, 0)
    restored.load(sampler.state())
    assert {name: c.cap for name, c in restored.curricula.items()} == {"test/easy-v1": 4, "test/hard-v1": 0}


def test_tasks_without_anything_to_explore_are_left_out_and_visited_now_and_then():
    def surprising(task: Task) -> list[Trajectory]:
        """The first six tasks end alike each time; in the others one of two episodes succeeds."""
        group = [episode(task, float(row and TASKS.index(task) >= 6)) for row in range(2)]
        for trajectory in group:
            trajectory.turns[0].token_ids, trajectory.turns[0].logprobs = [1, 2], [-0.5, -1.5]
        return group

    sampler = make_sampler("explorable(skipped=0.5, revisit_every=4)", TASKS, 0)
    assert sampler.update([surprising(task) for task in TASKS]) == {"sampler/explorability": pytest.approx(0.25)}
    dull = {task.id for task in TASKS[:6]}
    assert set(sampler.skipped()) == dull
    for step in range(3):
        assert not dull & {task.id for task in sampler.draw(6, step)}
    assert {task.id for task in sampler.draw(6, 3)} == dull
    sampler.update([surprising(TASKS[0])])
    assert sampler.skipped()[-1] == "t0", "who was played last is visited last"


def test_the_sets_of_a_mixture_are_drawn_by_their_weights():
    tasks = [replace(task, tags=(SOURCE + ("a", "b", "c")[index % 3],)) for index, task in enumerate(TASKS)]
    sampler = Sources(tasks, 0, {"a": 3.0, "b": 1.0})
    drawn = Counter(task.tags[0] for step in range(400) for task in sampler.draw(6, step))
    assert drawn.keys() == {"source:a", "source:b"}
    assert drawn["source:a"] / drawn.total() == pytest.approx(0.75, abs=0.03)
    assert max(Counter(task.id for task in sampler.draw(4, 0)).values()) == 1
    assert len(sampler.draw(40, 0)) == 40, "more than there are tasks"
