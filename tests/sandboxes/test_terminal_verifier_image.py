"""Task folders whose tests run in an image of their own, which gets the artifacts of the agent's files and no more."""

from __future__ import annotations

import io
import os
import shutil
import tarfile
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from task_folders import cache_with_python
from text_files import write_files

import agentgym
from agentgym import Call, load
from agentgym.errors import TaskError
from agentgym.registry import load_reward
from agentgym.sandboxes.code.terminal.artifacts import ARTIFACTS, Artifact, safe_archive
from agentgym.sandboxes.code.terminal.folder import TerminalFolder
from agentgym.sandboxes.code.terminal.harbor_config import read_config
from agentgym.sandboxes.code.terminal.judging import Submission

PROGRAMS = "sh bash cat chmod cp find ln ls mkdir mkfifo printf rm sed sleep test touch true"
FILES = {
    "task.toml": """
artifacts = ["/app/out", {source = "notes", exclude = ["*.tmp"]}]
[verifier]
environment_mode = "separate"
[verifier.environment]
memory_mb = 512
env = { WHERE = "verifier" }
""",
    "instruction.md": "Write 42 to out/answer.\n",
    "environment/Dockerfile": "FROM python:3.11-slim\nWORKDIR /app\nRUN mkdir out && echo old > out/given\n",
    "tests/Dockerfile": "FROM python:3.11-slim\nCOPY . /tests/\nRUN mkdir -p /app/out && touch /app/out/own /own\n",
    "tests/expected": "42\n",
    "tests/test.sh": """
find /app /logs/artifacts 2> /dev/null
[ -e /own ] && [ "$WHERE" = verifier ] && [ "$(cat /app/out/answer)" = "$(cat /tests/expected)" ] || exit
echo 1 > /logs/verifier/reward.txt
""",
    "solution/solve.sh": "cat out/given > /dev/null && echo 42 > out/answer\n",
}


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    top = tmp_path_factory.mktemp("verifier-image")
    with cache_with_python(top / "cache", PROGRAMS):
        yield load("importers", "harbor")(written(top / "apart"))["held_out"][0]


def written(folder, **others: str):
    return write_files(folder, {**FILES, **others})


async def earned(task, command: str) -> tuple[float, float]:
    environment = agentgym.make(task.environment)
    try:
        await environment.reset(task.public(), seed=0)
        await environment.call(Call("bash", {"command": command}))
        result = await environment.call(Call("done", {}))
    finally:
        await environment.close()
    components = await load_reward("terminal_verifier").score(task, str(result.content).partition(": ")[2])
    return components["success"], components["forged"]


RIGHT = "echo 42 > out/answer"
FORGED_CAT = "printf '#!/bin/sh\\necho 42\\n' > /bin/cat; chmod +x /bin/cat"
EARNED = {
    "the right answer": (1, RIGHT),
    "nothing": (0, "true"),
    "a pipe that is left out": (1, f"{RIGHT}; mkfifo out/pipe"),
    "a link to what is expected": (0, "ln -s /tests/expected out/answer"),
    "a relative link to it": (0, "ln -s ../../tests/expected out/answer"),
    "a chain of links to it": (
        0,
        "mkdir -p out/a/b; ln -s ../.. out/a/b/up; ln -s a/b/up/../../tests/expected out/answer",
    ),
    "a link within the artifact": (1, "echo 42 > out/real; ln -s real out/answer"),
    "a folder that is a link": (0, "rm -rf out; ln -s /tests out; touch answer"),
    "other tests": (
        0,
        "mkdir -p /tests; echo 'echo 1 > /logs/verifier/reward.txt' > /tests/test.sh; echo 1 > /tests/expected",
    ),
    "the reward": (0, "mkdir -p /logs/verifier /logs/artifacts; echo 1 > /logs/verifier/reward.txt"),
    "a program that stays behind": (0, FORGED_CAT),
}


VARIANTS = (
    "nothing",
    "a pipe that is left out",
    "a relative link to it",
    "a link within the artifact",
    "the reward",
    "a program that stays behind",
)


@pytest.mark.needs_namespaces
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.thorough] * (n in VARIANTS)) for n in EARNED])
async def test_what_the_artifacts_hold_is_paid(task, name):
    reward, command = EARNED[name]
    assert await earned(task, command) == (reward, 0)


@pytest.mark.needs_namespaces
async def test_the_verifier_gets_the_artifacts_and_no_other_files(task):
    """Folders come whole, in place of the verifier's own; the folder of artifacts always does."""
    verifier = load_reward("terminal_verifier")
    environment = agentgym.make(task.environment)
    try:
        await environment.reset(task.public(), seed=0)
        command = "mkdir notes; touch notes/a notes/b.tmp other out/new /logs/artifacts/c"
        await environment.call(Call("bash", {"command": command}))
        submission = str((await environment.call(Call("done", {}))).content).partition(": ")[2]
    finally:
        await environment.close()
    output: list[str] = []
    await verifier._reward(task, 0, Submission(submission), output)
    lines = set(output[-1].splitlines())
    assert {"/app/out/given", "/app/out/new", "/app/notes/a", "/logs/artifacts/c"} <= lines
    assert not {"/app/out/own", "/app/notes/b.tmp", "/app/other"} & lines


def test_which_image_the_tests_have_is_said_by_the_step_the_task_or_their_dockerfile(tmp_path):
    folder = TerminalFolder.read(written(tmp_path / "a"))
    [step] = folder.steps
    assert (step.verifier.dockerfile.text, step.brings_tests) == (FILES["tests/Dockerfile"], True)
    assert (step.verifier.memory_mib, step.verifier.environment) == (512, {"WHERE": "verifier"})
    assert [artifact.source for artifact in step.artifacts] == [ARTIFACTS, "/app/out", "notes"]
    named = FILES["task.toml"].replace("memory_mb", "docker_image = 'acme/tests:1'\nmemory_mb")
    [step] = TerminalFolder.read(written(tmp_path / "b", **{"task.toml": named})).steps
    assert (step.verifier.dockerfile.text, step.brings_tests) == ("FROM acme/tests:1\n", True)
    own = "[environment]\nmemory_mb = 77\n[verifier]\nenvironment_mode = 'separate'\n"
    written(tmp_path / "c", **{"task.toml": own})
    (tmp_path / "c/tests/Dockerfile").unlink()
    [step] = TerminalFolder.read(tmp_path / "c").steps
    assert (step.verifier.dockerfile.text, step.brings_tests) == (FILES["environment/Dockerfile"], False)
    assert step.verifier.memory_mib == 77
    steps = "[verifier.environment]\nmemory_mb = 5\n[[steps]]\nname = 'a'\n[[steps]]\nname = 'b'\n"
    config = read_config(f"{steps}[steps.verifier]\nenvironment_mode = 'shared'\n")
    assert ["verifier" in step for step in config["steps"]] == [True, False]


@pytest.mark.parametrize("source", ["/", "/tests", "/tests/x", "/logs", "/logs/verifier", "../logs"])
def test_an_artifact_never_is_where_the_tests_are(source):
    with pytest.raises(TaskError, match="which is the tests' own"):
        Artifact(source).path("/app")


def archive_of(members: list[tuple[str, bytes, str]]) -> bytes:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, kind, linked in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode = kind, linked, 0o6755
            archive.addfile(info)
    return raw.getvalue()


NAMES = st.lists(st.sampled_from(["a", "b", "..", ".", "tests"]), min_size=1, max_size=4).map("/".join)
KINDS = st.sampled_from([tarfile.REGTYPE, tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])


CHAIN = [
    ("app/out/a/b", tarfile.DIRTYPE, ""),
    ("app/out/a/b/up", tarfile.SYMTYPE, "../.."),
    ("app/out/z", tarfile.SYMTYPE, "a/b/up/../../x"),
    ("app/out/z/file", tarfile.REGTYPE, ""),
]
LINKED = [
    ("app/out/a/b", tarfile.REGTYPE, ""),
    ("app/out/a/b", tarfile.SYMTYPE, "../c"),
    ("app/out/d", tarfile.LNKTYPE, "app/out/a/b"),
]
NESTED = [
    ("app/out/a/b", tarfile.DIRTYPE, ""),
    ("app/out/a/b/up", tarfile.SYMTYPE, "../.."),
    ("app/out/a/b/up/z", tarfile.SYMTYPE, "../../../x"),
]


@example(CHAIN)
@example(LINKED)
@example(NESTED)
@settings(max_examples=60)
@given(st.lists(st.tuples(NAMES.map("app/out/".__add__), KINDS, NAMES | NAMES.map("/".__add__)), max_size=8))
def test_no_archive_leads_out_of_its_artifact(members):
    archive = safe_archive(archive_of(members), {"app/out": ()})
    with TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(archive)) as safe:
        top = Path(folder)
        for member in safe:
            path = top / member.name
            assert member.mode & 0o6000 == 0
            assert path.parent.resolve().is_relative_to(top.resolve() / "app" / "out") or member.name == "app/out"
            if path.is_symlink() or (path.exists() and not member.isdir()):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            with suppress(OSError):  # a member below a file
                safe.extract(member, top, filter="fully_trusted")
            assert Path(os.path.realpath(path)).is_relative_to(top.resolve() / "app" / "out"), member.name


@pytest.mark.parametrize("data", [b"no archive" * 100, b"\x1f\x8b", archive_of([("app/x", tarfile.REGTYPE, "")])[:300]])
def test_what_is_no_archive_is_named(data):
    with pytest.raises(ValueError, match="not an archive"):
        safe_archive(data, {"app/out": ()})
