"""`agentgym/code-files-v1` and `agentgym/code-bash-v1`: what the tools do to files, and what the shell remembers."""

from __future__ import annotations

import asyncio
import json

import pytest

import agentgym
from agentgym import Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, StopReason, Task, load_reward
from agentgym.errors import TaskError
from agentgym.messages import ResultStatus

pytestmark = pytest.mark.needs_namespaces

FILES = {"pack/__init__.py": "", "pack/a.py": "def double(x):\n    return x + x\n", "notes.txt": "one\ntwo\nthree\n"}
PROJECT = Task(
    "t",
    "agentgym/code-files-v1",
    "Change it.",
    parameters={"files": FILES, "tests": ["assert double(2) == 4"], "imports": "from pack.a import double\n"},
)
SHELL = Task("t", "agentgym/code-bash-v1", "Do it.", parameters={"files": {"notes.txt": "b\na\n"}})


@pytest.fixture
async def environment(request):
    task = getattr(request, "param", PROJECT)
    environment = agentgym.make(task.environment)
    await environment.reset(task, seed=0)
    yield environment
    await environment.close()


async def use(environment, name, **arguments):
    return await environment.call(Call(name, arguments))


async def output(environment, name, **arguments):
    return (await use(environment, name, **arguments)).content


def handed_in(result):
    return json.loads(result.content.removeprefix("Submitted: "))


async def test_an_agent_that_only_looks_leaves_the_state_as_it_was(environment):
    fresh = await environment.state_key()
    assert await output(environment, "list") == "notes.txt\npack/"
    assert await output(environment, "read", path="notes.txt", first_line=2) == "two\nthree"
    assert await environment.state_key() == fresh
    await use(environment, "write", path="new/deep.txt", text="x")
    assert await environment.state_key() != fresh


async def test_an_edit_needs_a_piece_that_stands_there_once(environment):
    assert await output(environment, "edit", path="pack/a.py", old="x + x", new="2 * x") == "Replaced."
    assert "2 * x" in await output(environment, "read", path="pack/a.py")
    twice = await use(environment, "edit", path="notes.txt", old="t", new="T")
    assert twice.status is ResultStatus.TOOL_ERROR
    assert "stands 2 times" in twice.content
    assert "copy the piece exactly" in await output(environment, "edit", path="notes.txt", old="four", new="4")
    assert "must not be empty" in await output(environment, "edit", path="notes.txt", old="", new="4")


async def test_search_names_file_and_line_in_order(environment):
    assert await output(environment, "search", pattern="def |two") == "notes.txt:2:two\npack/a.py:1:def double(x):"
    assert await output(environment, "search", pattern="nowhere") == "[nothing found]"
    assert (await use(environment, "search", pattern="(")).status is ResultStatus.TOOL_ERROR


@pytest.mark.parametrize("path", ["/etc/passwd", "../../etc/passwd", "a/../../b", "", "x" * 300, "a\x00b"])
async def test_a_path_out_of_the_project_is_refused_with_what_a_path_looks_like(environment, path):
    for name, more in (("read", {}), ("write", {"text": "x"}), ("list", {})):
        result = await use(environment, name, path=path, **more)
        assert result.status is ResultStatus.TOOL_ERROR or (path == "" and name == "list")


async def test_the_visible_tests_run_on_the_files_as_they_are(environment):
    assert await output(environment, "test") == "All 1 tests pass."
    await use(environment, "write", path="pack/a.py", text="def double(x):\n    return 5\n")
    assert "got 5" in await output(environment, "test")
    assert await output(environment, "run", command="python3 -c 'from pack.a import double; print(double(1))'") == "5"


async def test_a_command_shows_output_errors_and_its_exit_code(environment):
    assert await output(environment, "run", command="echo out; echo err >&2; exit 3") == "out\nerr\n[exit code 3]"
    assert await output(environment, "run", command="cat notes.txt") == "one\ntwo\nthree"


async def test_what_is_handed_in_is_every_file_and_no_link(environment):
    await use(
        environment,
        "run",
        command="ln -s /etc/passwd link; mkfifo pipe; mkdir -p empty/x; printf '\\377' > raw; chmod +x raw",
    )
    handed = handed_in(await use(environment, "submit"))
    assert handed["files"] == FILES
    assert handed["binary"] == {"raw": "/w=="}
    assert handed["executable"] == ["raw"]
    assert handed["folders"] == ["empty/x"]


async def test_too_many_files_cannot_be_handed_in_until_they_are_removed(environment):
    await use(environment, "run", command="for i in $(seq 500); do echo > f$i; done")
    refused = await use(environment, "submit")
    assert refused.status is ResultStatus.TOOL_ERROR
    assert "more than 400 files" in refused.content
    await use(environment, "run", command="rm f*")
    assert (await use(environment, "submit")).final


async def test_edits_of_one_message_do_not_lose_each_other(environment):
    calls = [("edit", {"path": "notes.txt", "old": old, "new": old.upper()}) for old in ("one", "two", "three")]
    await asyncio.gather(*(use(environment, name, **arguments) for name, arguments in calls))
    assert await output(environment, "read", path="notes.txt") == "ONE\nTWO\nTHREE"


@pytest.mark.parametrize("environment", [SHELL], indirect=True)
async def test_the_shell_keeps_folder_variables_functions_and_options_also_over_exit(environment):
    await use(
        environment, "bash", command="mkdir deep; cd deep; export A='two words'; B=(x y); f() { echo f$1; }; set -f"
    )
    assert (
        await output(environment, "bash", command="pwd; echo $A ${B[1]}; f 7; echo *")
        == "/work/deep\ntwo words y\nf7\n*"
    )
    assert await output(environment, "bash", command="C=kept; exit 4") == "[exit code 4]"
    assert await output(environment, "bash", command="echo $C; pwd") == "kept\n/work/deep"


@pytest.mark.parametrize("environment", [SHELL], indirect=True)
async def test_the_shell_survives_what_ends_or_breaks_it(environment):
    assert "syntax error" in await output(environment, "bash", command="if then")
    assert "unexpected EOF" in await output(environment, "bash", command="echo 'open")
    await use(environment, "bash", command="kill -9 $$")
    await use(environment, "bash", command="exec true")
    assert await output(environment, "bash", command="sleep 100 & echo still here") == "still here"
    assert await output(environment, "bash", command="cat notes.txt | sort") == "a\nb"


@pytest.mark.parametrize("environment", [SHELL], indirect=True)
async def test_a_restored_shell_is_where_the_first_one_was(environment):
    await use(environment, "bash", command="mkdir x; cd x; V=5; echo text > made")
    checkpoint = await environment.checkpoint()
    twin = agentgym.make("agentgym/code-bash-v1")
    try:
        await twin.restore(SHELL, checkpoint, seed=0)
        assert await twin.state_key() == await environment.state_key()
        assert await output(twin, "bash", command="pwd; echo $V; cat made") == "/work/x\n5\ntext"
    finally:
        await twin.close()


@pytest.mark.parametrize("files", [["a"], {"/etc/x": "a"}, {"../x": "a"}, {"a": 1}])
@pytest.mark.parametrize("name", ["agentgym/code-files-v1", "agentgym/code-bash-v1", "agentgym/code-notebook-v1"])
async def test_files_that_are_none_are_refused_by_name(name, files):
    environment = agentgym.make(name)
    with pytest.raises(TaskError, match=r"t: parameters\['files'\]"):
        await environment.reset(Task("t", name, "Go.", parameters={"files": files}), seed=0)
    await environment.close()


PRINTS = "print('[] not json'); import os; os._exit(0)"
ATTACKS = {
    "zeros": "truncate -s 280000 x",
    "umlauts": "python3 -c \"open('x', 'w').write('\\u00fc' * 260000)\"",
    "folders": "python3 -c \"import os; [os.makedirs(f'd/{n}') for n in range(9000)]\"",
    "planted modules": f'for m in base64 json os stat contextlib operator types; do echo "{PRINTS}" > $m.py; done',
    "brackets": "echo \"print('[' * 100000); import os; os._exit(0)\" > base64.py",
    "a name that is not UTF-8": "python3 -c \"open(b'\\xff\\xfe', 'w')\"",
    "pipes and links": "mkfifo p; ln -s /etc/passwd l; ln -s . loop",
}


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize(("name", "tool", "final"), [("bash", "bash", "done"), ("files", "run", "submit")])
async def test_a_solved_task_is_paid_whatever_lies_beside_it_and_an_unsolved_one_is_scored(name, tool, final, attack):
    task = Task("t", f"agentgym/code-{name}-v1", "Do it.", truth={"files": {"out.txt": "hi\n"}})
    for solution, success in (("true", 0.0), ("echo hi > out.txt", 1.0)):
        calls = Call(tool, {"command": f"{ATTACKS[attack]}; {solution}"}), Call(final, {})
        script = [Message("assistant", "", (call,)) for call in calls]
        (episode,) = await EpisodeManager(
            ScriptedPolicy(script), RolloutConfig(reward=load_reward("final_files"))
        ).collect([task])
        assert (episode.stop_reason, episode.success) == (StopReason.ANSWERED, success), episode.error


LONG_NAMES = "python3 -c \"import os; [os.makedirs('x/' + 'a' * 250 + f'/{n}' + 'b' * 200) for n in range(5000)]\""


@pytest.mark.parametrize("command", ["truncate -s 700000 x", LONG_NAMES])
async def test_what_is_too_much_to_be_handed_in_is_refused_and_can_be_removed(environment, command):
    await use(environment, "run", command=command)
    refused = await use(environment, "submit")
    assert refused.status is ResultStatus.TOOL_ERROR
    assert "remove" in refused.content
    await use(environment, "run", command="rm -r x")
    assert (await use(environment, "submit")).final
