"""`final_files` and `program_output`: right work passes, and nothing that is planted beside wrong work helps it."""

from __future__ import annotations

import json
import shutil

import pytest

from agentgym import Call, JudgeError, Message, StopReason, Task, Trajectory, Turn
from agentgym.messages import Result
from agentgym.rewards.final_files import FinalFiles
from agentgym.rewards.fresh_files import Command, SubmittedFiles, submitted_files
from agentgym.rewards.program_output import ProgramOutput

pytestmark = pytest.mark.needs_namespaces

TRUTH = {
    "imports": "from pack.core import square\n",
    "tests": ["assert square(3) == 9", "assert square(11) == 121"],
    "runs": [{"command": "python3 main.py", "stdin": "12\n", "stdout": "144"}],
}
RIGHT = {
    "pack/__init__.py": "",
    "pack/core.py": "def square(x):\n    return x * x\n",
    "main.py": "from pack.core import square\nprint(square(int(input())))\n",
}
WRONG = RIGHT | {"pack/core.py": "def square(x):\n    return x + x\n"}


def handed_in(files, truth=TRUTH, *, argument=None, parameters=None):
    text = "Submitted: " + json.dumps({"files": files, "binary": {}, "executable": [], "folders": []})
    call = Call("submit", {} if argument is None else {"code": argument})
    task = Task("t", "agentgym/code-files-v1", "Go.", truth=truth, parameters=parameters or {})
    trajectory = Trajectory("t", task)
    turn = Turn(0, Message("assistant", "", (call,)), (call,), (Result(text, name="submit", final=True),))
    trajectory.turns.append(turn)
    trajectory.stop_reason = StopReason.ANSWERED
    return trajectory


async def validate_components(files):
    return await FinalFiles().outcome(handed_in(files))


async def test_right_files_pass_every_check_and_wrong_ones_are_told_how_many():
    assert await validate_components(RIGHT) == {"success": 1.0, "checks_passed": 1.0}
    assert await validate_components(WRONG) == {"success": 0.0, "checks_passed": 0.0}


HACKS = {
    "conftest.py": "import pytest, sys\ndef pytest_runtest_makereport(*a): return None\nsys.exit(0)\n",
    "sitecustomize.py": "import builtins, os, sys\nbuiltins.AssertionError = Exception\nos._exit = sys.exit = "
    "lambda *a: 0\n",
    "usercustomize.py": "print(144)\nimport os\nos._exit(0)\n",
    "unittest.py": "class TestCase: pass\ndef main(*a, **k): print('OK')\n",
    "json.py": 'def dumps(*a, **k): return \'["n", "0x9"]\'\nloads = dumps\n',
    "os.py": "raise SystemExit(0)\n",
    "judge_guest.py": "def encode(*a): return ['n', '0x9']\n",
    "pytest.ini": "[pytest]\naddopts = --collect-only\n",
    "setup.cfg": "[tool:pytest]\naddopts = -k nothing\n",
    "result.json": '{"success": 1.0}',
    "python3": "#!/bin/sh\necho 144\n",
}


async def test_planted_files_do_not_help_wrong_work():
    """Each alone, and all together, named as what a runner of tests would load or call."""
    for planted in ({name: text} for name, text in HACKS.items() if name != "usercustomize.py"):
        components = await validate_components(WRONG | planted)
        assert components["success"] == 0.0, planted
    assert (await validate_components(WRONG | HACKS))["success"] == 0.0


@pytest.mark.parametrize(
    "core",
    [
        "import os\nos._exit(0)",
        "import sys\nsys.exit(0)",
        "print('144'); print('{\"success\": 1.0}'); print('All tests pass.')\nimport os\nos._exit(0)",
        "class Yes(int):\n    __eq__ = lambda *a: True\n    __str__ = lambda s: '144'\n    __hash__ = lambda s: 1\n"
        "square = lambda x: Yes(7)",
        "import builtins\nbuiltins.AssertionError = type('Calm', (Exception,), {})\nsquare = lambda x: None",
        "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\nsquare = lambda x: 0",
        "import atexit\natexit.register(print, 144)\nsquare = lambda x: ''",
        "import sys\nclass Out:\n    def write(self, t): sys.__stdout__.write('144')\n    def flush(self): pass\n"
        "sys.stdout = Out()\nsquare = lambda x: x",
        "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nsquare = lambda x: 9",
    ],
)
async def test_code_that_attacks_its_judge_gains_nothing(core):
    assert (await validate_components(RIGHT | {"pack/core.py": core + "\n"}))["success"] == 0.0


async def test_no_expected_value_lies_in_the_sandbox_of_the_files():
    thief = (
        "import os, subprocess\nneedle = str(12 * 12 * 1000 + 777)\n"
        "found = subprocess.run(['grep', '-rl', needle, '.', '/tmp'], capture_output=True).stdout\n"
        "print(found, [value for value in os.environ.values() if needle in value])\n"
    )
    truth = {"runs": [{"argv": ["python3", "main.py"], "stdout": "144777"}]}
    judge = FinalFiles()
    assert await judge.judge(SubmittedFiles({"main.py": thief.encode()}), truth) == [False]
    truth = {"runs": [{"argv": ["python3", "main.py"], "stdout": "b'' []"}, *truth["runs"]]}
    assert await judge.judge(SubmittedFiles({"main.py": thief.encode()}), truth) == [True, False]


async def test_contents_absence_and_words_are_checked_without_any_sandbox():
    truth = {"files": {"a.txt": "one\ntwo", "gone.txt": None}, "holds": [["b.py", "import x"]]}
    truth["lacks"] = [["b.py", "old"]]
    judge = FinalFiles(backend="no such backend")
    right = {"a.txt": "one  \ntwo\n\n", "b.py": "import x"}
    assert (await judge.outcome(handed_in(right, truth)))["success"] == 1.0
    for wrong in ({"gone.txt": ""}, {"a.txt": "one"}, {"b.py": "import x, old"}, {"b.py": ""}):
        assert (await judge.outcome(handed_in(right | wrong, truth)))["checks_passed"] == 0.75


async def test_a_program_that_never_ends_or_eats_memory_fails_and_others_stand():
    program = {"file": "main.py", "run": ["python3", "-S", "main.py"]}
    code = "n = int(input())\nwhile n == 2: pass\nhog = [bytearray(2**24) for _ in range(1 + (n == 3) * 999)]\nprint(n)"
    truth = {"runs": [{"stdin": f"{n}\n", "stdout": f"{n}\n"} for n in (1, 2, 3, 4)]}
    trajectory = handed_in({}, truth, argument=code, parameters={"program": program})
    components = await ProgramOutput(cpu_s=1).outcome(trajectory)
    assert components == {"success": 0.0, "runs_passed": 0.5}


async def test_a_program_without_a_submission_or_that_does_not_build_has_nothing():
    program = {"file": "m.c", "build": ["gcc", "m.c"], "run": ["./a.out"]}
    truth = {"runs": [{"stdin": "", "stdout": ""}]}
    broken = handed_in({}, truth, argument="int main( {", parameters={"program": program})
    assert (await ProgramOutput().outcome(broken))["success"] == 0.0
    nothing = handed_in({}, truth, parameters={"program": program})
    assert (await ProgramOutput(backend="no such backend").outcome(nothing))["success"] == 0.0


@pytest.mark.parametrize(
    "program",
    [
        {"file": "m.c", "build": ["gcc", "--no-such-option", "m.c"], "run": ["./a.out"]},
        {"file": "main.py", "run": ["python3", "--no-such-option", "main.py"]},
        {"file": "a.zig", "run": ["sh", "-c", "exit 3"], "harmless": ""},
    ],
    ids=["compiler", "interpreter", "language of the task"],
)
async def test_a_toolchain_that_fails_on_a_harmless_program_is_no_verdict_on_the_submission(program):
    trajectory = handed_in({}, {"runs": [{"stdout": ""}]}, argument="", parameters={"program": program})
    with pytest.raises(JudgeError, match=r"toolchain does not work: .* fails on a program that does nothing"):
        await ProgramOutput().outcome(trajectory)


async def test_a_command_with_code_of_its_own_is_not_tried_on_a_harmless_program():
    """It may need more of a program than that it runs, so that its failure says nothing."""
    program = {"file": "main.py", "run": ["python3", "-c", "from main import f; print(f())"]}
    trajectory = handed_in({}, {"runs": [{"stdout": "1"}]}, argument="1 / 0", parameters={"program": program})
    assert (await ProgramOutput().outcome(trajectory))["success"] == 0.0


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs javac (Debian: openjdk-17-jdk-headless)")
async def test_java_finds_its_configuration_in_a_sandbox():
    program = {"file": "Main.java", "build": ["javac", "Main.java"], "run": ["java", "Main"]}
    code = 'class Main { public static void main(String[] a) { System.out.println("hi"); } }'
    trajectory = handed_in({}, {"runs": [{"stdout": "hi"}]}, argument=code, parameters={"program": program})
    assert (await ProgramOutput().outcome(trajectory))["success"] == 1.0


@pytest.mark.parametrize("text", ["", "Noted."])
def test_the_result_of_an_environment_that_hands_in_no_files_is_no_verdict(text):
    trajectory = handed_in({})
    trajectory.turns[0].results[0].content = text
    with pytest.raises(JudgeError, match="contains no files"):
        submitted_files(trajectory)


NOTHING = '"binary": {}, "executable": [], "folders": []}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"files": 3}',
        '{"files": {"a": "cut',
        "[" * 100_000,
        '{"files": {"../../etc/passwd": "x"}, ' + NOTHING,
        '{"files": {"/etc/passwd": "x"}, ' + NOTHING,
        '{"files": {"a\\u0000b": "x"}, ' + NOTHING,
        '{"files": {"\\udc80": "x", "a": "\\udc80"}, ' + NOTHING,
        '{"files": {"a": "x", "a/b": "x"}, ' + NOTHING,
        '{"files": {}, "binary": {"a": "?"}, "executable": [[]], "folders": [3]}',
    ],
)
async def test_files_that_cannot_be_judged_were_not_handed_in(text):
    trajectory = handed_in({}, {"runs": [{"command": "true", "stdout": ""}]})
    trajectory.turns[0].results[0].content = f"Submitted: {text}"
    assert (await FinalFiles().outcome(trajectory))["success"] == 0.0


@pytest.mark.parametrize("truth", [None, {}, {"runs": []}, {"runs": [{"stdin": "1"}]}, {"runs": ["echo"]}])
async def test_a_truth_without_checks_is_no_verdict(truth):
    with pytest.raises(JudgeError):
        await FinalFiles().outcome(handed_in({}, truth))


def test_output_is_compared_by_lines_without_spaces_at_their_ends():
    from agentgym.sandbox import ExecResult

    command = Command(["x"], "a b\nc\n")
    assert command.holds(ExecResult(0, b"a b  \nc"))
    assert not command.holds(ExecResult(0, b"a  b\nc"))
    assert not command.holds(ExecResult(1, b"a b\nc"))
    assert not command.holds(ExecResult(0, b"a b\nc", truncated=True))
