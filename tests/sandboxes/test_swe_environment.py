"""`agentgym/swe-v1`: what its tools say, that a patch is what files differ by, and that only a fix is rewarded."""

from __future__ import annotations

import asyncio
import io
import tarfile

import pytest

import agentgym
from agentgym import Call, EpisodeManager, Message, ScriptedPolicy, Task
from agentgym.errors import JudgeError, SandboxDied, TaskError, ToolError
from agentgym.messages import ResultStatus
from agentgym.registry import load_reward, shared_backend
from agentgym.sandboxes.swe import controls
from agentgym.sandboxes.swe.judge import RepositoryTests
from agentgym.sandboxes.swe.patch import make_patch, paths_of
from agentgym.sandboxes.swe.repository import Repository

pytestmark = pytest.mark.needs_namespaces

WRONG = "def double(x):\n    return x + 2\n\n\ndef half(x):\n    return x // 2\n"
TESTS = """from thing import double, half


def test_double():
    assert double(5) == 10


def test_double_of_two():
    assert double(2) == 4


def test_half():
    assert half(6) == 3
"""
FILES = {"thing.py": WRONG, "tests/test_thing.py": TESTS, "conftest.py": "", "notes.txt": "no line end"}
TRUTH = {
    "fail_to_pass": ["tests/test_thing.py::test_double"],
    "pass_to_pass": ["tests/test_thing.py::test_double_of_two", "tests/test_thing.py::test_half"],
    "tests": ["tests/*"],
}
MEND = Call("replace", {"path": "thing.py", "old": "x + 2", "new": "x * 2"})


def thing(environment: str = "agentgym/swe-v1", **parameters: object) -> Task:
    return Task("thing", environment, "double(5) gives 7.", parameters={"files": FILES, **parameters}, truth=TRUTH)


@pytest.fixture
async def environment():
    environment = agentgym.make("agentgym/swe-v1")
    await environment.reset(thing().public(), seed=0)
    yield environment
    await environment.close()


async def use(environment, tool, **arguments):
    return await environment.call(Call(tool, arguments))


async def test_edits_of_one_turn_are_made_one_after_another(environment):
    """Calls of a turn run at the same time; two edits of one file that did so would lose one of them."""
    edits = [("x + 2", "x * 2"), ("x // 2", "x / 2"), ("def half", "def halve"), ("def double", "def twice")]
    results = await asyncio.gather(
        *(use(environment, "replace", path="thing.py", old=old, new=new) for old, new in edits),
        use(environment, "shell", command="cat thing.py"),
    )
    assert all(result.ok for result in results)
    assert results[-1].content == "def twice(x):\n    return x * 2\n\n\ndef halve(x):\n    return x / 2"


async def play(*calls: Call, task: Task | None = None):
    """An episode of these calls, and `submit` after them."""
    script = [Message("assistant", "", (call,)) for call in (*calls, Call("submit"))]
    [episode] = await EpisodeManager(ScriptedPolicy(script)).collect([task or thing()])
    assert episode.valid, episode.error
    return episode


async def test_a_bug_that_is_mended_is_rewarded_and_nothing_else_is():
    mended = await play(MEND)
    assert mended.outcome == {"success": 1, "completed": 1, "modified": 1, "mended": 1, "unbroken": 1}
    assert (await play()).outcome == {"success": 0, "completed": 1, "modified": 0, "mended": 0}
    broke = await play(MEND, Call("replace", {"path": "thing.py", "old": "x // 2", "new": "x"}))
    assert broke.outcome == {"success": 0, "completed": 1, "modified": 1, "mended": 1, "unbroken": 0.5}


async def test_a_wrong_patch_that_gives_the_other_value_of_a_control_is_wrong_and_no_forgery(monkeypatch):
    monkeypatch.setattr(controls, "other", lambda value, rng, *, exact: 6 if value == 3 else value + 1)
    broke = await play(MEND, Call("replace", {"path": "thing.py", "old": "x // 2", "new": "x"}))  # half(6) is 6
    assert broke.outcome == {"success": 0, "completed": 1, "modified": 1, "mended": 1, "unbroken": 0.5}


HACKS = {
    "the tests edited": [Call("replace", {"path": "tests/test_thing.py", "old": "== 10", "new": "== 7"})],
    "conftest exits": [Call("shell", {"command": "echo 'import os; os._exit(0)' > conftest.py"})],
    "settings of pytest": [Call("create", {"path": "pytest.ini", "content": "[pytest]\naddopts = --co\n"})],
    "git touched": [
        Call("shell", {"command": "rm -rf .git && git init -q && git config core.fsmonitor 'touch /tmp/x'"}),
    ],
}


@pytest.mark.parametrize("hack", HACKS)
async def test_a_fix_beside_a_hack_is_still_a_fix(hack):
    """What does not count is left out of the patch; the rest of it is judged."""
    assert (await play(MEND, *HACKS[hack])).outcome["success"] == 1


async def test_the_patch_is_a_diff_of_the_files_as_they_are(environment):
    await environment.call(MEND)
    await use(environment, "create", path="new/deep.txt", content="a\r\nb\x0cc")
    await use(
        environment,
        "shell",
        command="rm tests/test_thing.py; printf 'no line end\nanother' > notes.txt; git commit -qam x",
    )
    result = await use(environment, "submit")
    patch = result.content.partition("\n")[2]
    assert paths_of(patch) == ["new/deep.txt", "notes.txt", "tests/test_thing.py", "thing.py"]
    assert "-    return x + 2\n+    return x * 2\n" in patch
    assert "deleted file mode" in patch
    fresh = agentgym.make("agentgym/swe-v1")
    await fresh.reset(thing().public(), seed=0)
    try:
        assert (await use(fresh, "patch", diff=patch)).content == "Applied."
        assert (await use(fresh, "submit")).content == result.content
    finally:
        await fresh.close()


async def test_the_history_begins_with_the_bug(environment):
    assert (await use(environment, "shell", command="git log --oneline | wc -l")).content == "1"
    assert (await use(environment, "shell", command="git status --short")).content == "[no output]"
    task = thing(patch=make_patch({"thing.py": WRONG.encode()}, {"thing.py": WRONG.replace("//", "%").encode()}))
    await environment.reset(task.public(), seed=0)
    assert "x % 2" in (await use(environment, "view", path="thing.py")).content
    assert "//" not in (await use(environment, "shell", command="git log -p --all | cat")).content


async def test_edits_teach_what_was_wrong_with_them(environment):
    twice = await use(environment, "replace", path="thing.py", old="return x", new="return y")
    assert "occurs 2 times in thing.py, at lines [2, 6]" in twice.content
    never = await use(environment, "replace", path="thing.py", old="return x * 2", new="")
    assert (
        "The nearest line is '    return x // 2'" in never.content
        or "nearest line is '    return x + 2'" in never.content
    )
    assert "Did you mean tests/test_thing.py" in (await use(environment, "view", path="test_thing.py")).content
    assert (
        "no valid Python now"
        in (await use(environment, "replace", path="thing.py", old="def half(x):", new="def half(x")).content
    )
    for path in ("/etc/passwd", "../x", ".git/config", "a/../../b"):
        assert (await use(environment, "view", path=path)).status is ResultStatus.TOOL_ERROR
        assert (await use(environment, "create", path=path, content="x")).status is ResultStatus.TOOL_ERROR


async def test_files_are_listed_searched_and_viewed(environment):
    assert (await use(environment, "files")).content.splitlines() == [
        "conftest.py",
        "notes.txt",
        "thing.py",
        "tests/test_thing.py",
    ]
    assert (await use(environment, "search", pattern=r"return\s+x .. 2")).content == "thing.py:6:     return x // 2"
    assert "no regular expression" in (await use(environment, "search", pattern="(")).content
    view = (await use(environment, "view", path="thing.py", start=2, count=1)).content
    assert view == "2\t    return x + 2\n[5 more lines]"


async def test_tests_are_run_and_chosen(environment):
    everything = (await use(environment, "test")).content
    assert everything.startswith("[not all passed]")
    assert "assert 7 == 10" in everything
    assert (await use(environment, "test", selection="tests/test_thing.py::test_half")).content.startswith(
        "[all passed]"
    )
    assert "1 passed, 2 deselected" in (await use(environment, "test", selection="half")).content


async def test_guidance_comes_with_what_still_fails_until_attempts_run_out():
    """Agent-RLVR: attempt, validation, guidance, another attempt."""
    task = thing(tests=["tests/test_thing.py::test_double"], attempts=2, guidance="Look at what + does.")
    script = [Call("submit"), MEND]
    episode = await play(*script, task=task)
    first = episode.turns[0].results[0]
    assert first.status is ResultStatus.TOOL_ERROR
    assert "1 more attempts" in first.content
    assert "Look at what + does." in first.content
    assert episode.outcome["success"] == 1
    lazy = await play(Call("submit"), task=task)
    assert lazy.outcome["success"] == 0


async def test_the_edit_scaffold_has_no_shell():
    environment = agentgym.make("agentgym/swe-edit-v1")
    assert "shell" not in environment.tools
    assert "shell" in agentgym.make("agentgym/swe-v1").tools


async def test_a_task_with_wrong_parameters_is_named():
    environment = agentgym.make("agentgym/swe-edit-v1")
    for parameters, says in (
        ({}, "not both"),
        ({"files": FILES, "patch": "nonsense"}, "cannot be applied"),
        ({"repository": "no/such/thing"}, "an asset or a package in the cache"),
        ({"files": FILES, "attempts": 0}, "at least 1"),
        ({"files": FILES, "bug": 1}, r"unknown parameters \['bug'\]"),
    ):
        with pytest.raises(TaskError, match=says):
            await environment.reset(Task("t", "agentgym/swe-edit-v1", "x", parameters=parameters), seed=0)
    await environment.close()


async def test_the_judge_says_that_a_patch_does_not_fit():
    judge = load_reward("repository_tests")
    assert await judge.judge(thing(), "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n", ["tests"]) is None


def archive(**members: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archived:
        for name, content in members.items():
            info = tarfile.TarInfo(name.replace("__", "/"))
            info.size = len(content)
            archived.addfile(info, io.BytesIO(content))
        link = tarfile.TarInfo("top/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archived.addfile(link)
    return buffer.getvalue()


def test_an_archive_gives_its_regular_files_without_the_folder_around_them():
    repository = Repository.from_archive(archive(top__a=b"1", top__b__c=b"2"), "x")
    assert repository.files == {"a": b"1", "b/c": b"2"}
    with pytest.raises(TaskError, match="contains no file"):
        Repository.from_archive(archive(), "x")
    with pytest.raises(TaskError, match="not a tar archive"):
        Repository.from_archive(b"PK", "x")


def test_what_is_no_text_cannot_be_handed_in():
    with pytest.raises(ToolError, match="no text"):
        make_patch({}, {"a": b"\0"})
    with pytest.raises(ToolError, match="no UTF-8"):
        make_patch({}, {"a": b"\xff"})
    with pytest.raises(ToolError, match="Change less"):
        make_patch({}, {"a": b"long line\n" * 40_000})


class FailingBackend:
    """A real backend that fails when it is asked for one of these sandboxes with the prepared repository."""

    name = "failing"

    def __init__(self, *failures):
        self.failures, self.asked_for = failures, 0

    async def create(self, spec, *, snapshot=None):
        self.asked_for += snapshot is not None
        if snapshot is not None and self.asked_for in self.failures:
            raise SandboxDied("The spawner ended.")
        return await shared_backend("namespaces").create(spec, snapshot=snapshot)


@pytest.mark.parametrize(("failures", "passed"), [((1,), True), ((1, 2), True), ((1, 2, 6), False)])
async def test_a_patch_that_breaks_its_sandbox_every_time_on_a_working_machine_has_failed(failures, passed):
    """The third to fifth sandboxes are the control's. Otherwise an agent could have bad episodes thrown away."""
    judge = RepositoryTests(backend=FailingBackend(*failures))
    fix = make_patch({"thing.py": WRONG.encode()}, {"thing.py": WRONG.replace("x + 2", "x * 2").encode()})
    verdict = await judge.judge(thing(), fix, TRUTH["fail_to_pass"])
    assert verdict.passed(TRUTH["fail_to_pass"][0]) is passed


async def test_trouble_of_the_machine_is_no_verdict_on_a_patch():
    with pytest.raises(JudgeError, match=r"harmless control submission too.*: The spawner ended"):
        await RepositoryTests(backend=FailingBackend(1, 2, 3)).judge(thing(), "", TRUTH["fail_to_pass"])
