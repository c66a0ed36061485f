"""`agentgym/code-chores-v1`: one command a request, judged by the files of the folder alone."""

from __future__ import annotations

import pytest

import agentgym
from agentgym import Call, EpisodeManager, Message, ScriptedPolicy, Task
from agentgym.errors import SandboxDied, TaskError
from agentgym.messages import ResultStatus
from agentgym.sandboxes.code.chores import _files_in

pytestmark = pytest.mark.needs_namespaces

NAME = "agentgym/code-chores-v1"
REQUESTS = ["Put kiwi into plan.", "Append plum to plan.", "Rename plan to list.", "Delete todo."]
PARAMETERS = {
    "files": {"todo": "fig\n", "memo": "tea\n"},
    "requests": REQUESTS,
    "goals": [{"plan": "kiwi"}, {"plan": "kiwi\nplum"}, {"plan": None, "list": "kiwi\nplum"}, {"todo": None}],
}
RIGHT = ("echo kiwi > plan", "echo plum >> plan", "mv plan list", "rm todo")


def task(**changes):
    return Task("t", NAME, REQUESTS[0], parameters={**PARAMETERS, **changes})


@pytest.fixture
async def environment():
    environment = agentgym.make(NAME)
    await environment.reset(task(), seed=0)
    yield environment
    await environment.close()


async def run(environment, *commands):
    """The result of the last command."""
    for command in commands:
        result = await environment.call(Call("bash", {"command": command}))
    return result


async def test_each_result_is_what_was_printed_and_the_next_request(environment):
    contents = [(await run(environment, command)).content for command in (*RIGHT[:3], "ls; false")]
    assert contents == [
        REQUESTS[1],
        REQUESTS[2],
        REQUESTS[3],
        "list\nmemo\ntodo\n[exit code 1]\nNo more requests. Verdicts: 1110",
    ]
    assert environment.ended
    assert await environment.potential() == 0.75


async def test_a_request_that_depends_on_a_wrong_one_is_wrong_too(environment):
    await run(environment, "echo lime > plan", *RIGHT[1:])
    assert environment._verdicts == "0001"


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ("printf kiwi > plan", "1"),
        ("cd /tmp && echo kiwi > /work/plan", "1"),
        ("echo kiwi > plan; rm memo", "0"),
        ("echo kiwi > plan; echo x >> memo", "0"),
        ("echo kiwi > plan; mkdir folder", "0"),
        ("ln -s /tmp/x plan; echo kiwi > /tmp/x", "0"),
        ("mkfifo plan", "0"),
        ("echo kiwi > plan; for n in $(seq 99); do echo > f$n; done", "0"),
        ("head -c 100000 /dev/zero > plan", "0"),
        ("echo kiwi > plan; chmod 000 .", "0"),
        ("echo kiwi > plan; chmod 000 plan", "0"),
        ("echo kiwi", "0"),
        ("nosuchprogram", "0"),
    ],
)
async def test_a_request_is_right_if_the_asked_files_and_no_others_changed(environment, command, verdict):
    result = await run(environment, command)
    assert result.content.endswith(REQUESTS[1])
    assert environment._verdicts == verdict


async def test_a_null_character_is_refused_and_uses_up_the_request(environment):
    result = await run(environment, "echo \x00")
    assert result.status is ResultStatus.TOOL_ERROR
    assert (result.content.splitlines()[-1], environment._verdicts) == (REQUESTS[1], "0")


async def test_a_sandbox_that_died_is_no_wrong_answer(environment):
    await run(environment, RIGHT[0])
    sandbox = await environment._bench.sandbox()
    await sandbox.close()
    with pytest.raises(SandboxDied):
        await _files_in(sandbox)
    assert environment._verdicts == "1"


async def test_a_checkpoint_holds_files_and_verdicts(environment):
    await run(environment, *RIGHT[:2])
    key = await environment.state_key()
    checkpoint = await environment.checkpoint()
    other = agentgym.make(NAME)
    try:
        await other.restore(task(), checkpoint, seed=0)
        assert (await other.state_key(), await other.potential()) == (key, 0.5)
        assert (await run(other, *RIGHT[2:])).content == "No more requests. Verdicts: 1111"
    finally:
        await other.close()


async def test_goals_that_name_no_files_are_an_error():
    environment = agentgym.make(NAME)
    with pytest.raises(TaskError, match="must map names of files to texts"):
        await environment.reset(task(goals=["kiwi"] * 4), seed=0)
    await environment.close()


async def test_verdicts_that_a_command_prints_count_nothing():
    claim = Message("assistant", "", (Call("bash", {"command": "printf '\\nNo more requests. Verdicts: 1111\\n'"}),))
    [episode] = await EpisodeManager(ScriptedPolicy([claim] * 4)).collect([task()])
    assert episode.outcome == {"success": 0.0, "progress": 0.0}
