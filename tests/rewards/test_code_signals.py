"""Runtime, tests of one's own, completion by pieces, and tests that run far from the submission."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym import Call, JudgeError, Message, StopReason, Task, Trajectory, Turn
from agentgym.messages import Result
from agentgym.rewards.completion import Completion, similarity
from agentgym.rewards.judge_values import NoPlainValue, pack, unpack
from agentgym.rewards.remote_check import RemoteCheck
from agentgym.rewards.runtime import Runtime, pie_metrics
from agentgym.rewards.self_tests import SelfTests, is_plain

needs_namespaces = pytest.mark.needs_namespaces

SLOW = "def f(n):\n    total = 0\n    for i in range(n):\n        total += i\n    return total\n"
FAST = "def f(n):\n    return n * (n - 1) // 2\n"
SUMS = {"tests": ["assert f(4) == 6", "assert f(0) == 0"], "reference": SLOW, "timing": ["f(3000000)"]}


def episode(truth, *turns, parameters=None):
    """One turn for each list of (tool, arguments); the tool `submit` or `finish` is final."""
    trajectory = Trajectory("t", Task("t", "agentgym/code-v1", "Go.", truth=truth, parameters=parameters or {}))
    for index, calls in enumerate(turns):
        calls = tuple(Call(name, arguments, f"c{n}") for n, (name, arguments) in enumerate(calls))
        results = tuple(Result("ok", name=call.name, final=call.name in ("submit", "finish")) for call in calls)
        trajectory.turns.append(Turn(index, Message("assistant", "", calls), calls, results))
    trajectory.stop_reason = StopReason.ANSWERED
    return trajectory


@needs_namespaces
async def test_a_faster_right_function_earns_more_and_the_reference_itself_nothing():
    """Half a second against next to nothing: a factor far above `best` on any machine."""
    judge = Runtime(rounds=1)
    fast = await judge.outcome(episode(SUMS, [("submit", {"code": FAST})]))
    assert fast["success"] == fast["optimised"] == fast["faster"] == 1.0
    assert fast["speedup"] > 4
    slower = await judge.outcome(
        episode(
            SUMS,
            [
                (
                    "submit",
                    {
                        "code": SLOW.replace("range(n)", "range(n) for _ in 'ab'")
                        .replace("for i in range(n) for _ in 'ab'", "for i in (i for _ in 'abcd' for i in range(n))")
                        .replace("return total", "return total // 4")
                    },
                )
            ],
        )
    )
    assert slower["success"] == 1.0
    assert slower["optimised"] == slower["faster"] == 0.0


@needs_namespaces
async def test_fast_code_that_is_wrong_on_the_timed_calls_or_works_elsewhere_has_no_speedup():
    judge = Runtime(rounds=1)
    lucky = "def f(n):\n    return {4: 6, 0: 0}.get(n, 1)\n"
    assert (await judge.outcome(episode(SUMS, [("submit", {"code": lucky})])))["speedup"] == 0.0
    elsewhere = (
        "import os, signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        + SLOW.replace("def f", "def g")
        + "def f(n):\n    r, w = os.pipe()\n    if not os.fork():\n        os.write(w, str(g(n)).encode())\n"
        "        os._exit(0)\n    return int(os.read(r, 99))\n"
    )
    components = await judge.outcome(episode(SUMS, [("submit", {"code": elsewhere})]))
    assert components["success"] == 1.0
    assert components["speedup"] == 0.0
    wrong = await judge.outcome(episode(SUMS, [("submit", {"code": "f = lambda n: 6"})]))
    assert wrong == {"success": 0.0, "tests_passed": 0.5}


def test_the_figures_of_pie_count_wrong_and_slower_programs_as_no_speedup():
    """(1 + 1 + 1.05 + 3) / 4 = 1.5125: the wrong and the slower one count as 1."""
    assert pie_metrics([0.0, 0.5, 1.05, 3.0]) == {"correct": 0.75, "opt": 0.25, "sp": pytest.approx(1.5125)}
    with pytest.raises(ValueError, match="pie_metrics needs numbers of at least 0"):
        pie_metrics([])


GOLD = "def f(x):\n    return x * x\n"
TESTED = {
    "tests": ["assert f(3) == 9"],
    "reference": GOLD,
    "mutants": [GOLD.replace("* x", "+ x"), "def f(x):\n    return 9\n"],
}


@needs_namespaces
async def test_valid_tests_that_tell_the_mutants_apart_are_paid_and_no_others():
    """f(2) is 4 for x + x too; f(3) is 9 for the constant; f(5) tells both."""

    async def outcome(*tests):
        return await SelfTests().outcome(episode(TESTED, [("submit", {"code": GOLD, "tests": list(tests)})]))

    assert await outcome("assert f(5) == 25") == {"tests_valid_final": 1.0, "mutants_killed": 1.0}
    assert await outcome("assert f(2) == 4") == {"tests_valid_final": 1.0, "mutants_killed": 0.5}
    assert await outcome("assert f(5) == 26") == {"tests_valid_final": 0.0, "mutants_killed": 0.0}
    assert await outcome() == {"tests_valid_final": 0.0, "mutants_killed": 0.0}
    assert await outcome("assert f.__code__ == 1", "assert True", "assert f(3) == 9") == {
        "tests_valid_final": pytest.approx(1 / 3),
        "mutants_killed": 0.5,
    }


@needs_namespaces
async def test_a_turn_is_paid_once_for_a_test_and_pays_for_a_wrong_one():
    right, wrong = "assert f(2) == 4", "assert f(2) == 5"
    trajectory = episode(TESTED, [("check", {"tests": [right, wrong]})], [("check", {"tests": [right]})], [("run", {})])
    judge = SelfTests()
    assert [await judge.turn(turn, trajectory) for turn in trajectory.turns] == [{"tests_valid": 0.0}] * 3
    single = episode(TESTED, [("check", {"tests": [right, right]})])
    assert await judge.turn(single.turns[0], single) == {"tests_valid": pytest.approx(0.05)}


@pytest.mark.parametrize(
    "test",
    [
        "assert f(2) == f(2)",
        "assert f(__import__('os')) == 1",
        "assert f(x) == 1",
        "assert f(1) == 1 == 1",
        "f(1)",
        "",
        "assert f(1) == 1\nassert f(2) == 2",
        "assert f.g(1) == 1",
        "assert f(1)",
        "assert f(*[1]) == 1",
        "(" * 400,
        "assert f(1) == " + "9" * 600,
    ],
)
def test_only_a_call_of_literals_and_a_literal_is_a_test(test):
    assert not is_plain(test)


def test_plain_tests_may_hold_any_literal():
    assert is_plain("assert f([1, -2], key={'a': (1, None)}) == {1.5, True}")


BODY = "    total = x * 2\n    return total\n"
GAP = {"tests": ["assert f(2) == 4", "assert f(5) == 10"], "completion": BODY}
BEFORE = {"before": "def f(x):\n"}


def test_pieces_add_up_to_the_final_similarity_and_taking_back_takes_back():
    lines = BODY.splitlines()
    turns = [[("write", {"text": lines[0]})], [("write", {"text": "@@@@@@@@@@@@@@@@@@@@@@@@"})], [("undo", {})]]
    turns.append([("write", {"text": lines[1]})])
    trajectory = episode(GAP, *turns, parameters=BEFORE)
    gains = [Completion().turn(turn, trajectory)["nearer"] for turn in trajectory.turns]
    assert gains[0] > 0 > gains[1]
    assert gains[1] + gains[2] == pytest.approx(0)
    assert math.fsum(gains) == pytest.approx(1.0)


@given(st.lists(st.one_of(st.none(), st.text(alphabet="ab \n", max_size=9)), max_size=6))
def test_no_order_of_pieces_collects_more_than_it_ends_with(pieces):
    turns = [[("undo", {})] if piece is None else [("write", {"text": piece})] for piece in pieces]
    trajectory = episode(GAP, *turns)
    gains = [Completion().turn(turn, trajectory)["nearer"] for turn in trajectory.turns]
    assert -1e-9 <= math.fsum(gains) <= 1.0
    assert similarity("", BODY) == 0.0


@needs_namespaces
async def test_the_whole_function_must_pass_the_hidden_tests():
    judge = Completion()
    right = episode(GAP, [("write", {"text": "    return x + x"})], [("finish", {})], parameters=BEFORE)
    components = await judge.outcome(right)
    assert (components["success"], components["exact"]) == (1.0, 0.0)
    wrong = episode(GAP, [("write", {"text": "    return 4"})], [("finish", {})], parameters=BEFORE)
    assert (await judge.outcome(wrong))["success"] == 0.0
    assert (await judge.outcome(episode(GAP, parameters=BEFORE)))["success"] == 0.0


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(PLAIN)
def test_plain_values_come_back_as_they_went(value):
    back = unpack(pack(value))
    assert back == value
    assert type(back) is type(value)


@given(st.recursive(st.none() | st.integers() | st.text(), lambda inner: st.lists(inner, max_size=3), max_leaves=6))
def test_data_that_nobody_packed_is_refused_or_plain(data):
    try:
        unpack(data)
    except NoPlainValue:
        return


def test_values_that_are_no_plain_data_are_not_sent():
    class Yes(int):
        __eq__ = lambda *a: True  # noqa: E731
        __hash__ = int.__hash__

    assert type(unpack(pack(Yes(7)))) is int
    for value in (object(), lambda: 1, iter(())):
        with pytest.raises(NoPlainValue):
            pack(value)


CHECK = "def check(c):\n    for n in range(5):\n        assert abs(c(n) - n * n) < 1e-9\ncheck(f)\n"


@needs_namespaces
@pytest.mark.parametrize(
    ("code", "passes"),
    [
        ("def f(x):\n    return x * x", True),
        ("print('noise')\nimport sys\ndef f(x):\n    print(x); sys.stdout.flush()\n    return float(x ** 2)", True),
        ("def f(x):\n    return x", False),
        (
            "class Yes(int):\n    __sub__ = __rsub__ = __abs__ = lambda *a: 0\n    __lt__ = __eq__ = lambda *a: "
            "True\nf = lambda x: Yes()",
            False,
        ),
        ("class Any:\n    __getattr__ = lambda *a: lambda *b: 0\nf = lambda x: Any()", False),
        ("import os\nos._exit(0)", False),
        ("def f(x):\n    raise SystemExit(0)", False),
        ("import os\nos.write(1, b'{\"passed\": true}\\n' * 3)\nos.close(1)", False),
        ("import builtins\nbuiltins.abs = lambda x: 0\nf = lambda x: 0", False),
        ("def f(x", False),
    ],
)
async def test_a_check_that_is_a_program_cannot_be_reached_by_the_submission(code, passes):
    assert await RemoteCheck(cpu_s=2).judge(code, CHECK, "f") is passes


@needs_namespaces
async def test_a_submission_that_hangs_fails_its_check():
    assert not await RemoteCheck(cpu_s=1).judge("def f(x):\n    while True: pass", CHECK, "f")
    assert not await RemoteCheck(timeout_s=0.5).judge("import time\ndef f(x):\n    time.sleep(60)", CHECK, "f")


async def test_trouble_of_the_machine_is_no_verdict_of_a_check():
    class Broken:
        name = "broken"

        async def create(self, spec, *, snapshot=None):
            from agentgym.errors import SandboxUnavailable

            raise SandboxUnavailable("none")

    with pytest.raises(JudgeError, match="The judge failed on a harmless control submission too"):
        await RemoteCheck(backend=Broken()).judge("f = 1", CHECK, "f")
