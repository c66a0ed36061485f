"""`hidden_tests`: right code passes, wrong code fails, and a submission that attacks the judge gains nothing."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from agentgym import Call, JudgeError, Message, StopReason, Task, Trajectory, Turn
from agentgym.errors import SandboxDied
from agentgym.messages import Result, ResultStatus
from agentgym.registry import shared_backend
from agentgym.rewards.hidden_tests import HiddenTests, same, take_apart
from agentgym.rewards.judge_guest import encode

TESTS = ["assert f(2) == 4", "assert f(3) == 9", "assert f(-1) == 1"]
RIGHT = "def f(x):\n    return x * x\n"

needs_namespaces = pytest.mark.needs_namespaces


def submitted(code, truth, status=ResultStatus.OK):
    call = Call("submit", {"code": code})
    result = Result("Submitted.", status, "submit", final=status is ResultStatus.OK)
    trajectory = Trajectory("t", Task("t", "agentgym/code-v1", "Write f.", truth=truth))
    trajectory.turns.append(Turn(0, Message("assistant", "", (call,)), (call,), (result,)))
    trajectory.stop_reason = StopReason.ANSWERED
    return trajectory


async def judge(code, tests=TESTS, **options):
    return await HiddenTests(**options).judge(code, tests)


@needs_namespaces
async def test_right_code_passes_every_test():
    assert await HiddenTests().outcome(submitted(RIGHT, {"tests": TESTS})) == {"success": 1.0, "tests_passed": 1.0}


@needs_namespaces
async def test_code_that_is_right_in_part_is_told_how_much():
    """abs(x) * 2 is right for 2 alone: one of three."""
    components = await HiddenTests().outcome(submitted("def f(x):\n    return abs(x) * 2", {"tests": TESTS}))
    assert components == {"success": 0.0, "tests_passed": pytest.approx(1 / 3)}


@needs_namespaces
@pytest.mark.parametrize(
    ("code", "split", "text"),
    [
        (RIGHT, "train", ""),
        ("def f(x):\n    return abs(x) * 2", "train", "This test fails: assert f(3) == 9"),
        ("def f(x):\n    return abs(x) * 2", "held_out", "2 of 3 hidden tests fail."),
        ("def f(x:", "train", "This test fails: assert f(2) == 4"),
    ],
)
async def test_feedback_names_a_failing_test_of_a_training_task_alone(code, split, text):
    episode = submitted(code, {"tests": TESTS})
    episode.task = replace(episode.task, split=split)
    assert await HiddenTests().feedback(episode) == text


async def test_without_a_submission_nothing_passes_and_no_sandbox_is_made():
    refused = submitted(RIGHT, {"tests": TESTS}, ResultStatus.TOOL_ERROR)
    assert await HiddenTests(backend="no such backend").outcome(refused) == {"success": 0.0, "tests_passed": 0.0}


def test_the_fraction_is_recorded_but_not_rewarded():
    assert HiddenTests().total({"success": 0.0, "tests_passed": 0.9}) == 0.0


@needs_namespaces
@pytest.mark.parametrize(
    "code",
    [
        "",
        "def f(x:",
        "raise SystemExit",
        "import os; os._exit(0)",
        "def f(x):\n    import os; os._exit(0)",
        "def f(x):\n    raise KeyboardInterrupt",
        "print('All 3 tests pass.'); print('{\"success\": 1.0}')",
        "class Yes:\n    __eq__ = lambda *a: True\n    __hash__ = lambda s: 1\nf = lambda x: Yes()",
        "class Yes(int):\n    __eq__ = lambda *a: True\n    __hash__ = lambda s: 1\nf = lambda x: Yes(7)",
        "class Yes(list):\n    __eq__ = lambda *a: True\nf = lambda x: Yes([4, 9, 1])",
        "class Lie:\n    __class__ = int\nf = lambda x: Lie()",
        "import builtins, json\njson.dumps = lambda *a, **k: 'true'\nf = lambda x: True",
        "import sys\nsys.modules['json'].dumps = lambda v: '[\"?\"]'\nf = lambda x: x",
        "import sys, os, signal\nos.kill(os.getppid(), signal.SIGKILL)",
        'import os\nfor fd in range(3, 64):\n    try: os.write(fd, b\'0 ["n", "0x4"]\\n\' * 3)\n'
        "    except OSError: pass",
        "import sys\nframe = sys._getframe()\nwhile frame:\n    frame.f_globals['encode'] = lambda v, depth=0: ['?']\n"
        "    frame = frame.f_back\nf = lambda x: x",
        "import atexit; atexit.register(print, 'ok')\nf = lambda x: None",
        "f = lambda x: [[[]]] * 3",
        "def f(x):\n    deep = []\n    for _ in range(100_000): deep = [deep]\n    return deep",
        "f = lambda x: 'x' * 50_000_000",
    ],
)
async def test_code_that_computes_nothing_passes_nothing(code):
    assert await judge(code) == [False] * 3


class TappedBackend:
    """A real backend that notes everything that is sent into its sandboxes."""

    name = "tapped"

    def __init__(self):
        self.sent = []

    async def create(self, spec, *, snapshot=None):
        return TappedSandbox(await shared_backend("namespaces").create(spec, snapshot=snapshot), self.sent)


class TappedSandbox:
    def __init__(self, sandbox, sent):
        self.sandbox, self.sent = sandbox, sent

    async def run_python(self, code, **options):
        self.sent.append(code)
        return await self.sandbox.run_python(code, **options)

    async def close(self):
        await self.sandbox.close()


@needs_namespaces
async def test_no_expected_value_enters_the_sandbox_of_the_submission():
    """What is not there cannot be read, whatever the submission does to its own process."""
    backend = TappedBackend()
    tests = ["assert f(1) == 1_234_567", "assert f('a') == 'secret'"]
    assert await judge("f = lambda x: x", tests, backend=backend) == [False, False]
    assert len(backend.sent) == 1
    assert "f(1)" in backend.sent[0]
    assert "secret" not in backend.sent[0]
    assert not re.search(r"1_?234_?567|0x12d687", backend.sent[0])


@needs_namespaces
async def test_its_own_output_neither_helps_nor_harms_right_code():
    loud = "print('0 [\"?\"]' * 1000)\n" + RIGHT + "import sys\nsys.stdout.write('no newline')\nsys.stdout.close()"
    assert await judge(loud) == [True] * 3


@needs_namespaces
async def test_a_call_that_never_ends_fails_and_those_before_it_stand():
    code = "def f(x):\n    while x == 3: pass\n    return x * x"
    assert await judge(code, cpu_s=1) == [True, False, False]


@needs_namespaces
async def test_a_call_that_sleeps_for_ever_fails_and_those_before_it_stand():
    code = "import time\ndef f(x):\n    time.sleep(1000 if x == 3 else 0)\n    return x * x"
    assert await judge(code, timeout_s=1.0) == [True, False, False]


@needs_namespaces
async def test_code_that_eats_memory_fails():
    assert await judge("hog = []\nwhile True: hog.append(bytearray(2**24))") == [False] * 3


@needs_namespaces
async def test_one_judgement_leaves_nothing_for_the_next():
    """Each runs in a fresh sandbox: a file that one submission leaves is not there for another."""
    await judge("open('answers', 'w').write('4')\n" + RIGHT)
    assert await judge("import os\nf = lambda x: x * x if os.path.exists('answers') else None") == [False] * 3


@needs_namespaces
async def test_expected_values_that_are_no_literals_are_computed_without_the_submission():
    """The submission redefines what the expected value is made with, in its own process alone."""
    cheat = "import sys\nsys.getsizeof = lambda x: 0\nf = lambda x: 0"
    right = "import sys\ndef f(x):\n    return sys.getsizeof(x)"
    assert await judge(cheat, ["assert f(()) == sys.getsizeof(())"]) == [False]
    assert await judge(right, ["assert f(()) == sys.getsizeof(())"]) == [True]


@needs_namespaces
async def test_set_up_code_runs_before_the_submission():
    passed = await HiddenTests().judge("def f(x):\n    return x + base", ["assert f(1) == 11"], setup="base = 10")
    assert passed == [True]


@needs_namespaces
async def test_claims_without_a_comparison_ask_for_truth():
    assert await judge("f = lambda x: x > 2", ["assert f(3)", "assert not f(1)", "assert f(1)"]) == [True, True, False]


class FailingBackend:
    """A real backend that fails when it is asked for one of the first sandboxes: what a machine in trouble does."""

    name = "failing"

    def __init__(self, *failures):
        self.failures, self.asked_for = failures, 0

    async def create(self, spec, *, snapshot=None):
        self.asked_for += 1
        if self.asked_for in self.failures:
            raise SandboxDied("The spawner ended.")
        return await shared_backend("namespaces").create(spec, snapshot=snapshot)


@needs_namespaces
@pytest.mark.parametrize("failures", [(1,), (1, 2)])
async def test_trouble_that_passes_is_tried_again(failures):
    assert await judge(RIGHT, backend=FailingBackend(*failures)) == [True] * 3


async def test_trouble_of_the_machine_is_no_verdict():
    with pytest.raises(JudgeError, match="The spawner ended"):
        await judge(RIGHT, backend=FailingBackend(1, 2, 3))


@needs_namespaces
async def test_code_that_breaks_its_sandbox_every_time_on_a_working_machine_has_failed():
    """The third sandbox is the control's. Otherwise an agent could have every bad episode thrown away."""
    assert await judge(RIGHT, backend=FailingBackend(1, 2, 4)) == [False] * 3


@needs_namespaces
async def test_values_are_compared_by_other_relations_too_and_an_object_forges_none():
    tests = ["assert f(2) <= 4", "assert f(2) < 4", "assert 5 > f(2)", "assert f(2) != 5", "assert f(0.5) >= 0.25"]
    assert await HiddenTests().judge("def f(x):\n    return x * x\n", tests) == [True, False, True, True, True]
    forged = "class Any:\n    __lt__ = __le__ = __gt__ = __ge__ = __ne__ = lambda *a: True\ndef f(x): return Any()\n"
    assert await HiddenTests().judge(forged, tests) == [False] * 5
    assert await HiddenTests().judge("def f(x): return float('nan')\n", tests) == [False] * 5


@pytest.mark.parametrize("truth", [None, {}, {"tests": []}])
async def test_a_task_without_hidden_tests_cannot_be_judged(truth):
    with pytest.raises(JudgeError, match=r"t has no truth\['tests'\]"):
        await HiddenTests().outcome(submitted(RIGHT, truth))


@pytest.mark.parametrize(
    "test", ["f(2)", "assert 3 in f(2)", "assert f(", "assert 1 < f(2) < 3", "x = 1; assert f(2) == 4"]
)
def test_an_assertion_that_cannot_be_taken_apart_is_the_judges_trouble(test):
    with pytest.raises(JudgeError, match="hidden test"):
        take_apart(test)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 1.0),
        (True, 1),
        (0.1 + 0.2, 0.3),
        ([1, (2, 3)], [1, (2, 3)]),
        ({1, 2, 3}, {3, 2, 1}),
        (frozenset({1}), {1}),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
        ({1: "x"}, {1.0: "x"}),
        (10**400, 10**400),
        (float("inf"), float("inf")),
        (b"ab", bytearray(b"ab")),
        (None, None),
        ("", ""),
        ([], []),
        (1 + 0j, 1),
        (-0.0, 0),
    ],
)
def test_values_that_are_equal_in_python_are_equal_as_data(left, right):
    assert left == pytest.approx(right) if isinstance(left, float) else left == right
    assert same(encode(left), encode(right))


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, 2),
        (1, "1"),
        ([1], (1,)),
        ([1], [1, 1]),
        ({1}, [1]),
        (None, 0),
        (None, ""),
        ("a", "b"),
        ({"a": 1}, {"a": 2}),
        ({"a": 1}, {"b": 1}),
        (float("nan"), float("nan")),
        (object(), object()),
        (len, len),
        (0.1, 0.1001),
        (10**17, 10**17 + 1),
        ([], ()),
        ({}, set()),
        (b"a", "a"),
        (range(2), [0, 1]),
    ],
)
def test_values_that_differ_differ_as_data(left, right):
    assert not same(encode(left), encode(right))


@pytest.mark.parametrize(
    "forged", [[], ["n"], ["n", None], ["n", "0xzz"], {"n": "0x4"}, [["n", "0x4"]], 4, True, ["n", "4"]]
)
def test_forged_data_of_another_shape_equals_nothing_but_the_number_it_says(forged):
    assert same(forged, encode(4)) is (forged == ["n", "4"])
