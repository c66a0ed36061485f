"""Task folders with several steps: one episode, judged step by step, and what an agent does to be paid for more."""

from __future__ import annotations

import pytest
from task_folders import cache_with_python
from text_files import write_files

import agentgym
from agentgym import Call, EpisodeManager, Message, Result, ResultStatus, RolloutConfig, ScriptedPolicy, load
from agentgym.errors import TaskError
from agentgym.evaluation import validate_tasks
from agentgym.sandboxes.code.terminal.environment import DONE, ENDS, submissions_in

PROGRAMS = "sh bash cat chmod cp dirname ln ls mkdir nohup printf rm sed setsid sleep tee test touch true"
pytestmark = pytest.mark.needs_namespaces
FILES = {
    "task.toml": """
[agent]
timeout_sec = 60
[[steps]]
name = "first"
min_reward = 1
[[steps]]
name = "second"
""",
    "environment/Dockerfile": "FROM python:3.11-slim\nWORKDIR /app\n",
    "tests/pay.sh": "echo $1 > /logs/verifier/reward.txt\n",
    "steps/first/instruction.md": "Write 1 to a.\n",
    "steps/first/tests/test.sh": '[ "$(cat /app/a)" = 1 ] && . /tests/pay.sh 1\n',
    "steps/first/solution/solve.sh": "echo 1 > a\n",
    "steps/second/instruction.md": "Write what given.txt holds to b.\n",
    "steps/second/workdir/setup.sh": "cat secret/number > given.txt; cat a >> given.txt\n",
    "steps/second/workdir/secret/number": "7\n",
    "steps/second/tests/test.sh": '[ "$(cat /app/b)" = "$(printf "7\\n1")" ] && . /tests/pay.sh 1\n',
    "steps/second/solution/solve.sh": "cp given.txt b\n",
}


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """Returns a function: the set with the task of the folder, some files of which are others."""
    top = tmp_path_factory.mktemp("steps")
    with cache_with_python(top / "cache", PROGRAMS):

        def write(name: str = "growing", **others: str):
            return load("importers", "harbor")(write_files(top / name, {**FILES, **others}))

        yield write


@pytest.fixture(scope="module")
def task(imported):
    return imported()["held_out"][0]


def turn(*calls: str | Call) -> Message:
    """What an agent says that runs commands, or makes other calls, at once."""
    return Message("assistant", "", tuple(Call("bash", {"command": c}) if isinstance(c, str) else c for c in calls))


async def play(task, *messages: Message):
    config = RolloutConfig(reward="terminal_verifier", concurrency=1)
    manager = EpisodeManager(lambda task: ScriptedPolicy([*messages, Message("assistant", "That is all.")]), config)
    [trajectory] = await manager.collect([task], 1)
    assert trajectory.error is None
    return trajectory


FIRST, SECOND, HAND_IN = turn("echo 1 > a"), turn("cp given.txt b"), turn(DONE)
TAMPERED = (
    "mkdir -p /tests /logs/verifier; echo 1 | tee /logs/verifier/reward.txt; echo '. /tests/pay.sh 1' > /tests/test.sh"
)
EARNED = {
    "both": (1, FIRST, HAND_IN, SECOND, HAND_IN),
    "the first alone": (0.5, FIRST, HAND_IN, HAND_IN),
    "a first that is wrong": (0, turn("echo 2 > a"), HAND_IN, SECOND, HAND_IN),
    "a second that is not handed in": (0.5, FIRST, HAND_IN, SECOND),
    "nothing that is handed in": (0, FIRST, SECOND),
    "tests tampered with in the first": (0.5, turn("echo 1 > a", TAMPERED), HAND_IN, HAND_IN),
    "an end that the agent prints": (0.5, FIRST, HAND_IN, turn(f"printf '{ENDS}'")),
    "both steps at once": (0.5, turn("echo 1 > a", DONE, DONE)),
    "a first that is handed in again": (0, turn(DONE, "echo 1 > a", DONE)),
    "no place for the second's files": (0.5, turn("echo 1 > a; rm -rf secret; echo > secret"), HAND_IN, HAND_IN),
    "a setup that the agent breaks": (0.5, turn("echo 1 > a; ln -s /proc given.txt"), HAND_IN, HAND_IN),
}


VARIANTS = ("the first alone", "a first that is wrong", "nothing that is handed in", "a first that is handed in again")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.thorough] * (n in VARIANTS)) for n in EARNED])
async def test_the_steps_that_are_reached_are_paid(task, name):
    earned, *messages = EARNED[name]
    trajectory = await play(task, *messages)
    assert trajectory.outcome == {"success": earned, "forged": 0}
    seen = "".join(str(result.content) for turn in trajectory.turns for result in turn.results)
    assert ("Write what given.txt holds" in seen) is (earned > 0 and "place" not in name and "breaks" not in name)


def test_what_other_tools_and_programs_answer_is_not_handed_in():
    """An agent's own program may answer a call of that name, with an archive of its own making."""
    own = Result(f"{ENDS}x", ResultStatus.BY_PROGRAM, "done"), Result("Handed in: x", name="bash")
    assert submissions_in([*own, Result("Handed in: y\n\nGo on.", name="done")]) == (["y"], False)


async def test_the_last_step_that_is_reached_may_pay_alone(imported):
    config = 'multi_step_reward_strategy = "final"\n' + FILES["task.toml"]
    [task] = imported("final", **{"task.toml": config})["held_out"]
    assert (await play(task, FIRST, HAND_IN, SECOND, HAND_IN)).outcome["success"] == 1
    assert (await play(task, FIRST, HAND_IN, HAND_IN)).outcome["success"] == 0


async def test_an_episode_goes_on_from_a_checkpoint_in_its_step(task):
    environment, twin = agentgym.make(task.environment), agentgym.make(task.environment)
    try:
        await environment.reset(task.public(), seed=0)
        assert await environment.workspace() is None, "a program would be given the first step alone"
        assert not environment.tools["done"].options.final
        await environment.call(FIRST.calls[0])
        result = await environment.call(DONE)
        assert str(result.content).endswith("Write what given.txt holds to b.")
        assert not result.final
        await twin.restore(task.public(), await environment.checkpoint(), seed=0)
        assert await twin.state_key() == await environment.state_key()
        assert (await twin.call(Call("bash", {"command": "cat given.txt"}))).content == "7\n1"
        assert (await twin.call(DONE)).final
    finally:
        await environment.close()
        await twin.close()


async def test_a_setup_that_fails_before_the_agent_is_the_folders_fault(imported):
    [task] = imported("broken", **{"steps/first/workdir/setup.sh": "echo no such thing >&2; false\n"})["held_out"]
    environment = agentgym.make(task.environment)
    try:
        with pytest.raises(TaskError, match=r"setup.sh of its step first failed: no such thing"):
            await environment.reset(task.public(), seed=0)
    finally:
        await environment.close()


async def test_steps_are_not_played_for_a_judge_on_another_machine(task):
    environment = agentgym.make(task.environment)
    environment.is_remote = True
    with pytest.raises(TaskError, match=r"growing has several steps, .* Play it where it is judged"):
        await environment.reset(task.public(), seed=0)
    await environment.close()


def test_reward_hacks_try_every_step_and_the_last_one_after_an_honest_start(task):
    environment = load("environments", task.environment)
    solution, hacks = environment.solution_of(task), environment.reward_hacks(task)
    assert [message.calls[0].name for message in solution] == ["bash", "done", "bash", "done"]
    later = {what: messages for what, messages in hacks.items() if what.endswith(", after the other steps")}
    assert len(later) * 2 == len(hacks)
    assert all(messages[:2] == solution[:2] and len(messages) == 4 for messages in later.values())


@pytest.mark.thorough
async def test_a_folder_is_sound_if_its_last_step_is(imported):
    sound, hackable = (
        imported(),
        imported("exists", **{"steps/second/tests/test.sh": '[ -f "/app/b" ] && . /tests/pay.sh 1\n'}),
    )
    assert [verdict.kind for verdict in (await validate_tasks(sound)).values()] == ["sound"]
    [verdict] = (await validate_tasks(hackable)).values()
    assert verdict.reason == "it pays an agent that creates empty files where the tests look, after the other steps: 1"
