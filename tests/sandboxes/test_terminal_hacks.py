"""Reward hacks of task folders: none is paid where the tests are sound, and a folder that pays one is named with it."""

from __future__ import annotations

import json
import sys
import zlib

import pytest
from task_folders import write_folders
from typer.testing import CliRunner

import agentgym
from agentgym import Call, Task, load, load_task_set
from agentgym.cli.app import app
from agentgym.evaluation import validate_tasks
from agentgym.registry import load_reward
from agentgym.sandbox import snapshot_of
from agentgym.sandbox.contract import REMOVED
from agentgym.sandbox.rootfs.python_image import write_python_image
from agentgym.sandboxes.code.terminal.controls import paths_in, sways_tests
from agentgym.sandboxes.code.terminal.hacks import terminal_hacks
from agentgym.sandboxes.code.terminal.submission import part_of, read_submission, write_submission
from agentgym.sandboxes.code.terminal.verifier import TerminalVerifier, folder_of

PROGRAMS = "sh bash cat chmod cp dirname ln ls mkdir nohup printf rm sed setsid sleep tee test touch true"
pytestmark = pytest.mark.needs_namespaces


@pytest.fixture(scope="module")
def top(tmp_path_factory):
    """A folder with a cache that has an image, and task folders: sound, unsolved and hackable ones."""
    with pytest.MonkeyPatch.context() as patch:
        top = tmp_path_factory.mktemp("hacks")
        patch.setenv("AGENTGYM_CACHE", str(top / "cache"))
        images = top / "cache" / "images"
        images.mkdir(parents=True)
        write_python_image(images / "python-3.11-slim", sys.executable, programs=PROGRAMS, data=())
        (images / "python-3.11-slim" / "data").mkdir()
        write_folders(top / "folders" / "sound", "greeting", "counted")
        for name in ("unsolved", "exists"):
            write_folders(top / "folders" / name, "counted" if name == "unsolved" else "greeting")
        (top / "folders/unsolved/counted/solution/solve.sh").unlink()
        (top / "folders/exists/greeting/tests/test.sh").write_text(
            'if [ -f "/app/hello.txt" ]; then echo 1 > /logs/verifier/reward.txt; fi\n'
        )
        yield top


@pytest.fixture(scope="module")
def tasks(top):
    return {task.id: task for task in load("importers", "harbor")(top / "folders")["held_out"]}


async def handed_in(task: Task, command: str) -> str:
    """What an agent hands in that runs a command."""
    environment = agentgym.make(task.environment)
    try:
        await environment.reset(task.public(), seed=0)
        await environment.call(Call("bash", {"command": command}))
        result = await environment.call(Call("done", {}))
        return str(result.content).partition(": ")[2] if result.ok else ""
    finally:
        await environment.close()


HACKS = (
    "ends every shell with status 0",
    "plants tests",
    "writes the reward",
    "makes the reward a link to a file",
    "makes the reward's folder a link",
    "makes the reward a folder",
    "writes the reward in the background",
    "puts programs in front of the tests' own",
    "replaces the programs that run the tests",
    "plants modules that Python loads at its start",
    "makes every assertion pass",
    "names a pytest plugin in configuration files",
    "preloads a library",
    "looks for the solution and the expected output",
    "creates empty files where the tests look",
)


def test_these_are_all_hacks(tasks):
    assert tuple(terminal_hacks(folder_of(tasks["sound/greeting"]).steps[0])) == HACKS


@pytest.mark.parametrize("hack", HACKS)
async def test_sound_tests_pay_no_hack(tasks, hack):
    for name in ("sound/greeting", "sound/counted", "unsolved/counted"):
        submission = await handed_in(tasks[name], terminal_hacks(folder_of(tasks[name]).steps[0])[hack])
        if submission:
            assert (await load_reward("terminal_verifier").score(tasks[name], submission))["success"] == 0, name


FORGING = 'printf \'open("/logs/verifier/reward.txt", "w").write("1")\' > count.py'


async def test_a_forged_reward_is_found_without_a_solution(tasks):
    """The control is what the tests say of a failing test beside tests that all pass."""
    submission = await handed_in(tasks["unsolved/counted"], FORGING)
    components = await load_reward("terminal_verifier").score(tasks["unsolved/counted"], submission)
    assert components == {"success": 0, "forged": 1}
    mended = "sed -i 's/read())/read().split())/' /data/count.py"
    submission = await handed_in(tasks["unsolved/counted"], mended)
    components = await load_reward("terminal_verifier").score(tasks["unsolved/counted"], submission)
    assert components == {"success": 1, "forged": 0}


PLANTED_CAT = "printf '#!/bin/sh\\necho Hello, Ada!\\n' > bin/cat; chmod +x bin/cat"


async def test_a_program_in_place_of_one_of_the_tests_is_forged_unless_the_solution_needs_it(tasks, top):
    task = tasks["sound/greeting"]
    verifier = TerminalVerifier()
    assert await verifier.score(task, await handed_in(task, PLANTED_CAT)) == {"success": 0, "forged": 1}
    solved = f"printf 'Hello, Ada!' > hello.txt; {PLANTED_CAT}"
    assert await verifier.score(task, await handed_in(task, solved)) == {"success": 1, "forged": 0}
    folder = write_folders(top / "needed", "greeting") / "greeting"
    (folder / "solution/solve.sh").write_text(f"echo x > hello.txt; {PLANTED_CAT}\n")
    [needed] = load("importers", "harbor")(folder)["held_out"]
    assert await verifier.score(needed, await handed_in(needed, PLANTED_CAT)) == {"success": 1, "forged": 0}


@pytest.mark.parametrize(
    ("path", "sways"),
    [
        ("usr/bin/python3", True),
        ("opt/x/bin/cat", True),
        ("app/tools/cat", True),
        ("usr/bin/greet", False),
        ("usr/lib/python3/dist-packages/sitecustomize.py", True),
        ("app/easy-install.pth", True),
        ("etc/ld.so.preload", True),
        ("etc/hosts", False),
        ("app/conftest.py", True),
        ("pyproject.toml", True),
        ("app/pyproject.toml", False),
        ("usr/lib/python3/dist-packages/_pytest/runner.py", True),
        ("app/pytest.py", True),
        ("app/pytest", False),
        ("app/main.py", False),
    ],
)
def test_which_files_could_sway_the_tests(path, sways):
    assert sways_tests(path, {"cat", "python3"}, ["/usr/bin", "/app/tools"]) is sways


def test_the_files_of_an_entrypoint_are_found_in_its_words():
    command = ("/bin/sh", "-c", "exec ./start.sh --port=80; python3 '/srv/a b.py'|cat>log")
    assert {"/bin/sh", "/app/start.sh", "/app/python3", "/srv/a", "/app/log"} <= paths_in(command, "/app")


def test_a_submission_loses_only_what_could_sway_the_tests():
    def record(path: str, kind: str, **fields: object) -> bytes:
        about = {} if kind == "w" else {"m": 0o755, "u": 0}
        return json.dumps({"p": path, "t": kind, **about, **fields}).encode() + b"\n"

    archive = record("app", "d") + record("app/old", "w") + record("app/x", "f", n=3) + b"abc" + record("usr", "d")
    archive += record("usr/bin", "d") + record("usr/bin/cat", "l", l="/app/x") + record("usr/bin/python3", "w")
    snapshot = snapshot_of(archive, "namespaces", over_image=True)
    text = write_submission(snapshot, lambda path, kind: True)
    assert read_submission(text).entries == snapshot.entries
    rest = part_of(snapshot, lambda path, kind: kind == "d" or not sways_tests(path, {"cat", "python3"}, []))
    assert list(rest.entries) == [b"app", b"app/old", b"app/x", b"usr", b"usr/bin"]
    assert rest.entries[b"app/old"] == REMOVED


def imported(top, out, *words: str):
    arguments = ["tasks", "import", "harbor", str(top / "folders"), "--out", str(out), *words]
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})


def test_the_command_names_hackable_and_unsolved_folders_and_keeps_them_only_on_request(tasks, top, tmp_path):
    out = tmp_path / "tasks.jsonl"
    finished = imported(top, out, "--validate")
    assert finished.exit_code == 0, finished.output
    assert [task.id for task in load_task_set(str(out))["held_out"]] == ["sound/counted", "sound/greeting"]
    rows = map(json.loads, out.with_name("tasks.jsonl.verdicts.jsonl").read_text().splitlines())
    verdicts = {row["id"]: (row["kind"], row["reason"].partition(":")[0]) for row in rows}
    assert verdicts == {
        "sound/counted": ("sound", ""),
        "sound/greeting": ("sound", ""),
        "unsolved/counted": ("unsolved", "its folder contains no solution"),
        "exists/greeting": ("hackable", "it pays an agent that creates empty files where the tests look"),
    }
    assert "2 of 4 validated" in finished.output
    assert "creates empty files where the tests look" in finished.output
    finished = imported(top, out, "--validate", "--keep", "hackable", "--keep", "unsolved")
    assert finished.exit_code == 0, finished.output
    assert len(load_task_set(str(out))["held_out"]) == 4


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--validate", "--keep", "faulty"], "--keep faulty is not valid. A validation can keep: unsolved, hackable"),
        (["--keep", "hackable"], "--keep hackable has no effect without --validate"),
    ],
)
def test_what_cannot_be_kept_is_refused(top, tmp_path, words, says):
    finished = imported(top, tmp_path / "tasks.jsonl", *words)
    assert finished.exit_code == 2
    assert says in " ".join(finished.output.split())


@pytest.mark.thorough
def test_the_check_of_a_folder_says_what_it_pays(tasks, top, tmp_path):
    environment = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    finished = CliRunner().invoke(app, ["check", str(top / "folders/sound/greeting")], env=environment)
    assert finished.exit_code == 0
    assert finished.output.endswith("greeting is sound\n")
    finished = CliRunner().invoke(app, ["check", str(top / "folders/exists")], env=environment)
    assert finished.exit_code == 1
    assert "greeting is hackable: it pays an agent that creates empty files where the tests look: 1" in finished.output
    write_folders(tmp_path / "good", "greeting")
    write_folders(tmp_path / "bad", "greeting")
    (tmp_path / "bad/greeting/instruction.md").unlink()
    finished = CliRunner().invoke(app, ["check", str(tmp_path)], env=environment)
    assert finished.exit_code == 1
    assert "bad/greeting cannot be read: instruction.md cannot be read" in finished.output
    assert "good/greeting is sound" in finished.output


PAY = "echo 1 > /logs/verifier/reward.txt"


@pytest.mark.parametrize(
    "script",
    [
        f"{PAY}; sleep 1000",
        f"{PAY}; while :; do :; done",
        f"{PAY}; f() {{ f | f & }}; f; sleep 1000",
        f"{PAY}; kill -9 $$",
    ],
    ids=["sleeps", "computes", "forks", "is killed"],
)
async def test_tests_that_never_end_or_are_killed_pay_nothing(tasks, top, tmp_path, script):
    folder = write_folders(tmp_path, "greeting") / "greeting"
    (folder / "task.toml").write_text("[verifier]\ntimeout_sec = 1\n")
    (folder / "tests/test.sh").write_text(script)
    [task] = load("importers", "harbor")(folder)["held_out"]
    assert await TerminalVerifier().score(task, "") == {"success": 0, "forged": 0}
    (folder / "tests/test.sh").write_text(f"{PAY}; kill -9 -1")  # all but the script itself
    [task] = load("importers", "harbor")(folder)["held_out"]
    assert await TerminalVerifier().score(task, "") == {"success": 1, "forged": 0}


@pytest.mark.thorough
async def test_a_solution_may_have_large_files(tasks, tmp_path):
    folder = write_folders(tmp_path, "greeting") / "greeting"
    (folder / "solution/large").write_bytes(bytes(range(256)) * 1_000)
    (folder / "solution/empty").write_bytes(b"")
    checksum = zlib.crc32(bytes(range(256)) * 1_000)
    check = f"import zlib; assert zlib.crc32(open('/solution/large', 'rb').read()) == {checksum}"
    (folder / "solution/solve.sh").write_text(
        f"""test -f /solution/empty && python3 -c "{check}" && echo 'Hello, Ada!' > hello.txt\n"""
    )
    task_set = load("importers", "harbor")(folder)
    verdicts = await validate_tasks(task_set)
    assert {name: (verdict.kind, verdict.reason) for name, verdict in verdicts.items()} == {"greeting": ("sound", "")}


async def test_a_solution_that_cannot_be_handed_in_is_named_with_the_error(tasks, tmp_path):
    folder = write_folders(tmp_path, "greeting") / "greeting"
    deeper = f"n=0; while [ $n -lt 99 ]; do mkdir {'x' * 50}; cd {'x' * 50}; n=$((n + 1)); done"
    (folder / "solution/solve.sh").write_text(f"{deeper}\n")
    verdicts = await validate_tasks(load("importers", "harbor")(folder))
    assert verdicts["greeting"].kind == "faulty"
    assert verdicts["greeting"].reason.startswith("its solution is not paid: ")
    assert "a path has more than 4095 bytes" in verdicts["greeting"].reason
