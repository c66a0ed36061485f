"""Properties of every text environment: generators, oracles, exact states, potentials, and the final-state reward."""

from __future__ import annotations

import copy
import random
from dataclasses import replace

import pytest

from agentgym import (
    Budgets,
    Call,
    EpisodeManager,
    JudgeError,
    Message,
    Result,
    RolloutConfig,
    ScriptedPolicy,
    Task,
    Trajectory,
    Turn,
)
from agentgym.errors import TaskError
from agentgym.messages import ResultStatus, StopReason
from agentgym.registry import load, load_reward, names
from agentgym.testing.arguments import plausible

ENVIRONMENTS = [name for name in names("environments") if name.startswith("agentgym/text-")]
every_environment = pytest.mark.parametrize("name", ENVIRONMENTS)


async def play(task, script=None):
    """One episode, by default of the oracle."""
    script = script or load("environments", task.environment).oracle(task)
    manager = EpisodeManager(ScriptedPolicy(script), RolloutConfig(budgets=Budgets(max_turns=32), concurrency=1))
    return (await manager.collect([task]))[0]


async def opened(task, seed=0):
    environment = load("environments", task.environment)()
    await environment.reset(task.public(), seed=seed)
    return environment


async def snapshot(environment):
    return await environment.state_key(), await environment.potential(), environment.ended, environment.verdict()


def test_there_are_twelve_text_environments():
    assert len(ENVIRONMENTS) == 12


@every_environment
async def test_the_oracle_solves_every_level(name):
    environment = load("environments", name)
    for level in range(len(environment.levels)):
        for seed in range(3):
            episode = await play(environment.generate(seed, level))
            assert (episode.success, episode.stop_reason) == (1.0, StopReason.ENVIRONMENT), episode.task.id


@every_environment
def test_equal_seeds_give_equal_tasks_and_others_do_not(name):
    environment = load("environments", name)
    state = random.getstate()
    tasks = [environment.generate(seed, 2) for seed in range(12)]
    assert tasks == [environment.generate(seed, 2) for seed in range(12)]
    assert len({task.content_key() for task in tasks}) > 8
    assert random.getstate() == state


@every_environment
def test_an_unknown_level_or_axis_is_refused_by_name(name):
    environment = load("environments", name)
    axis, limits = next(iter(environment.axes.items()))
    count = len(environment.levels)
    with pytest.raises(TaskError, match=rf"no difficulty {count}\. Levels are 0 to {count - 1}"):
        environment.generate(0, len(environment.levels))
    with pytest.raises(TaskError, match=r"no axis .fog.\. Axes are"):
        environment.generate(0, 0, fog=1)
    with pytest.raises(
        TaskError, match=rf"{axis} = {limits.high + 1} \(.*\) must be from {limits.low} to {limits.high}"
    ):
        environment.generate(0, 0, **{axis: limits.high + 1})


@every_environment
async def test_any_play_can_be_captured_and_goes_on_the_same(name):
    """Random calls; after each one a fresh instance restored from the checkpoint agrees, and answers the next alike."""
    kind = load("environments", name)
    for seed in range(3):
        rng, task = random.Random(seed), kind.generate(seed, 1)
        environment = await opened(task)
        tools = list(environment.tools.values())
        for _ in range(8):
            twin = kind()
            await twin.restore(task.public(), await environment.checkpoint(), seed=0)
            assert await snapshot(twin) == await snapshot(environment)
            tool = rng.choice(tools)
            call = Call(tool.name, plausible(tool, rng))
            first_result, second_result = await environment.call(call), await twin.call(call)
            assert (first_result.content, first_result.status) == (second_result.content, second_result.status)
            assert await snapshot(twin) == await snapshot(environment)


@every_environment
async def test_a_checkpoint_is_not_changed_by_what_is_done_after_it(name):
    kind = load("environments", name)
    task = kind.generate(3, 1)
    environment = await opened(task)
    checkpoint = await environment.checkpoint()
    before = copy.deepcopy(checkpoint)
    for turn in (await play(task)).turns:
        for call in turn.calls:
            await environment.call(call)
    assert environment.ended
    assert checkpoint == before


@every_environment
async def test_progress_grows_to_one_at_the_end_and_is_below_it_before(name):
    episode = await play(load("environments", name).generate(5, 3))
    potentials = [turn.potential for turn in episode.turns]
    assert all(0 <= value < 1 for value in potentials)
    assert episode.outcome == {"success": 1.0, "progress": 1.0}
    assert potentials[0] == min(potentials)


@every_environment
async def test_nothing_changes_after_the_end(name):
    task = load("environments", name).generate(2, 0)
    episode, environment = await play(task), await opened(task)
    calls = [call for turn in episode.turns for call in turn.calls]
    for call in calls:
        await environment.call(call)
    ended = await snapshot(environment)
    late_result = await environment.call(calls[-1])
    assert (late_result.status, late_result.content) == (
        ResultStatus.TOOL_ERROR,
        "It is over: nothing changes any more.",
    )
    assert await snapshot(environment) == ended


@every_environment
async def test_invalid_parameters_are_a_task_error_that_names_the_task(name):
    kind = load("environments", name)
    good = kind.generate(0, 0)
    for parameter in good.parameters:
        for value in (None, 17.5, [], {}, -1, [1, 2]):
            if isinstance(good.parameters[parameter], int) and value == -1:
                continue
            broken = replace(good, id="broken", parameters={**good.parameters, parameter: value})
            with pytest.raises(TaskError, match=r"^broken: "):
                await opened(broken)


# ---- the judge


@every_environment
async def test_claiming_success_earns_nothing(name):
    task = load("environments", name).generate(1, 1)
    episode = await play(task, lambda messages: Message("assistant", "Solved. success: 1.0. You have done it."))
    assert episode.outcome["success"] == 0.0


def forged(episode, **changes):
    """The episode with another last result."""
    last = episode.turns[-1]
    result = replace(last.results[-1], **changes)
    return replace(episode, turns=[*episode.turns[:-1], replace(last, results=(*last.results[:-1], result))])


@every_environment
async def test_a_record_that_differs_from_the_replay_is_a_judge_error(name):
    judge, episode = load_reward("final_state"), await play(load("environments", name).generate(1, 1))
    assert await judge.outcome(episode) == {"success": 1.0, "progress": 1.0}
    with pytest.raises(JudgeError, match="Either the environment is not deterministic, or the record was changed"):
        await judge.outcome(forged(episode, content="You win."))


async def test_calls_that_were_never_run_do_not_count():
    judge, task = load_reward("final_state"), load("environments", "agentgym/text-number-guess-v1").generate(0, 0)
    call = Call("guess", {"number": task.truth["secret"]})
    for status, success in ((ResultStatus.OK, 1.0), (ResultStatus.OVER_BUDGET, 0.0)):
        turn = Turn(0, Message("assistant", "", (call,)), (call,), (Result("correct", status, "guess"),))
        episode = Trajectory("e", task, turns=[turn], stop_reason=StopReason.MAX_CALLS)
        assert (await judge.outcome(episode))["success"] == success


@pytest.mark.parametrize(
    ("environment", "complaint"),
    [
        ("nobody/nothing-v1", "judge cannot create its own copy of the environment"),
        ("agentgym/sql-v1", "needs the method verdict"),
    ],
)
async def test_an_environment_without_a_verdict_is_a_judge_error(environment, complaint):
    with pytest.raises(JudgeError, match=complaint):
        await load_reward("final_state").outcome(Trajectory("e", Task("t", environment, "?")))
