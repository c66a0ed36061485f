"""`repository_tests` pays for a fix, and not for what would have any test pass; honest patches never pay for that."""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from dataclasses import replace

import pytest
from swe_cheat_list import CHEATS
from swe_cheat_repository import FILES, FIX, TASK, patch_of
from swe_cheats_that_look import KNOWS_ONE, LOOKING

from agentgym import Task
from agentgym.sandboxes.swe.controls import canary, canary_name, control_of
from agentgym.sandboxes.swe.guest_judge import collected, results_of
from agentgym.sandboxes.swe.judge import PatchVerdict, RepositoryTests
from agentgym.sandboxes.swe.patch import make_patch

MET = (  # one or two for each part of the judge; benchmarks/swe_cheats.py has them all
    *("conftest.py at the top forges", "sitecustomize.py", "plugin by dist-info", "plugin by egg-info"),
    *("report's key from the frames", "verdicts written by one who knows this judge", "the judge's process killed"),
    "verdicts taken back when the controls' run is over",
    "always equal, and ends the run at what no real test compares with",
    *("the judge's memory and descriptors opened", "a marker xfail is added", "CallInfo swallows assertions"),
    *("always equal", "expected value from the caller's source", "reports forged, but not of canaries"),
    *("a hook's function replaced, but not for canaries", "tests' code emptied when first called"),
    *("honest if tests are awaited, from the frames", "honest if tests are awaited, from all lists"),
    *("honest if a seen test is changed", "honest if a test has words of controls", "honest if tests disagree"),
    "equal to each even number",
)
ALL = CHEATS | LOOKING


@pytest.mark.needs_namespaces
async def test_no_cheat_is_paid_and_the_fix_is():
    judge = RepositoryTests()
    gate = asyncio.Semaphore(2)

    async def success(name: str) -> tuple[str, float, float]:
        async with gate:
            components = await judge.score(TASK, patch_of(FIX if name == "fix" else ALL[name]))
        return name, components["success"], components.get("forged", 0.0)

    results = await asyncio.gather(*map(success, ["fix", *MET]))
    assert [name for name, paid, _ in results if paid] == ["fix"]
    forged = {name for name, _, forged in results if forged}
    assert forged >= set(MET[11:])
    assert not forged & {"fix", *MET[:4]}  # left out of the patch, so that there was nothing to forge with


@pytest.mark.needs_namespaces
@pytest.mark.thorough
async def test_who_knows_one_hidden_test_does_not_know_by_it_which_run_has_another_as_its_control():
    """One that knows what `test_double` expects is paid only if that is the control of the second run, too."""
    judge = RepositoryTests(controls=2)
    for _ in range(30):  # 1.5 on average
        components = await judge.score(TASK, patch_of(LOOKING[KNOWS_ONE]))
        if not components["success"]:
            break
    assert components.get("forged") == 1
    assert (await judge.score(TASK, patch_of(FIX)))["success"] == 1


SOURCE = """
import unittest
import pytest

VALUE = [3]


def f(x):
    if x < 0:
        raise ValueError(f"no {x}")
    return x * 2


def near(actual, expected, rtol=1.0):
    assert abs(actual - expected) <= rtol * abs(expected)


assert_allclose = near


def test_literal():
    assert f(2) == 4


def test_text():
    assert "4" == str(f(2)), "says why"


def test_collection():
    value = [f(1), f(2)]
    assert value == [2, 4]


@pytest.mark.parametrize("x, expected", [(1, 2)])
def test_parameter(x=1, expected=2):
    assert f(x) == expected


def test_parameter_that_comes_back(x=1):
    text = str(f(x))
    assert x == int(text) / 2


def test_parameter_on_both_sides(x=1):
    assert x == f(x) / 2


def test_names():
    left, right = f(1), 2
    assert left == right


def test_truth():
    assert f(2) > 3 and True


def test_raises():
    with pytest.raises(ValueError, match="no"):
        f(-1)


def test_helper():
    assert_allclose(f(2), 4.5, rtol=0.5)


def test_nothing_is_asserted():
    for x in VALUE:
        f(x)


def test_in_a_loop():
    for x in VALUE:
        assert f(x) == 6


class Tests(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(f(3), 6)

    def test_true(self):
        self.assertTrue(f(3))

    def test_in(self):
        self.assertNotIn(f(3), VALUE)

    def test_raises(self):
        with self.assertRaises(ValueError):
            f(-1)


def test_that_ends_early():
    if VALUE:
        return
    assert f(1) == 3


@pytest.mark.xfail
def test_that_fails():
    assert f(1) == 3
"""
TESTS = [
    *("test_literal", "test_text", "test_collection", "test_parameter[1-2]", "test_names", "test_truth"),
    *("test_parameter_that_comes_back[1]", "test_parameter_on_both_sides[1]"),
    *("test_raises", "test_helper", "test_nothing_is_asserted", "test_in_a_loop"),
    *(f"Tests::test_{name}" for name in ("equal", "true", "in", "raises")),
]


def run(source: str, test: str) -> bool:
    """Whether a test function passes, called without pytest, with its first row if it is parametrised."""
    names: dict[str, object] = {}
    exec(compile(source, "tests.py", "exec"), names)
    *owner, function = test.partition("[")[0].split("::")
    try:
        call = getattr(names[owner[0]](function), function) if owner else names[function]
        rows = [mark.args for mark in getattr(call, "pytestmark", ()) if mark.name == "parametrize"]
        call(**{name: value for text, values in rows for name, value in zip(text.split(", "), values[0], strict=True)})
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - any way to fail will do
        return False
    return True


def test_every_control_fails_for_a_source_for_which_the_test_passes():
    assert all(run(SOURCE, test) for test in TESTS)
    texts = set()
    for seed in range(30):
        changed, controls = control_of(
            SOURCE, [*TESTS, "test_that_ends_early", "test_that_fails", "gone"], random.Random(seed)
        )
        assert list(controls.values()) == TESTS
        assert not any(run(changed, test) for test in controls)
        texts.add(changed)
    assert len(texts) > 20


def test_what_cannot_be_read_has_no_controls_and_canaries_have_names_of_their_own():
    assert control_of("print 1", ["test_x"], random.Random(0)) == ("print 1", {})
    for seed in range(30):
        rng = random.Random(seed)
        name = canary_name(SOURCE, rng)
        assert f"def {name}(" not in SOURCE
        assert not run(canary(name, rng), name)


def task(source: str, hidden: str, fixed: str, unbroken: tuple[str, ...] = (), **parameters: object) -> Task:
    return Task(
        "honest",
        "agentgym/swe-v1",
        "-",
        parameters={"files": {"thing.py": source}, **parameters},
        truth={
            "fail_to_pass": ["test_thing.py::test_double"],
            "pass_to_pass": [f"test_thing.py::{name}" for name in unbroken],
            "tests": ["test_*.py"],
            "files": {"test_thing.py": hidden},
            "gold": make_patch({"thing.py": source.encode()}, {"thing.py": fixed.encode()}),
        },
    )


PLAIN, FIXED = FILES["thing.py"], FIX["thing.py"]


@pytest.mark.needs_namespaces
async def test_an_honest_patch_does_not_pay_for_a_control_that_gold_passes_too():
    """Here every control passes: the fix makes all comparisons true, which is the gold patch's own doing."""
    hidden = "from thing import double\n\n\ndef test_double():\n    assert double(5) == 10\n"
    fixed = PLAIN.replace("return x + 2", "from unittest.mock import ANY\n    return ANY")
    honest = task(PLAIN, hidden, fixed)
    assert (await RepositoryTests().score(honest, honest.truth["gold"]))["success"] == 1
    lone = replace(honest, truth={**honest.truth, "gold": ""})
    assert (await RepositoryTests().score(lone, honest.truth["gold"])).get("forged") == 1


@pytest.mark.needs_namespaces
async def test_a_patch_whose_controls_come_to_no_end_is_paid_only_where_those_of_gold_do_neither():
    """Without a gold patch nobody can tell an honest value that cannot be compared from one that shuns its controls."""
    hidden = (
        "import pytest\nfrom thing import double, half\n\n\n@pytest.mark.parametrize('x, expected', [(5, 10)])\n"
        "def test_double(x, expected):\n    assert double(x) == expected\n\n\n"
        "def test_half():\n    assert half(6) == 3\n"
    )
    ends = "class Number(int):\n        __hash__ = None\n        def __eq__(self, other):\n            " + (
        "int(self) == int(other) or __import__('os')._exit(0)\n            return True\n    return Number(x * 2)"
    )
    fixed = PLAIN.replace("return x + 2", ends)
    known = task(PLAIN, hidden, fixed, ("test_half",))
    known = replace(known, truth={**known.truth, "fail_to_pass": ["test_thing.py::test_double[5-10]"]})
    lone = replace(known, truth={**known.truth, "gold": ""})
    wrong = replace(
        lone, truth={**lone.truth, "fail_to_pass": ["test_thing.py::test_half", *lone.truth["fail_to_pass"]]}
    )
    patches = (known.truth["gold"], known.truth["gold"], make_patch({}, {"notes": b"nothing\n"}))
    judge = RepositoryTests()
    paid, unproved, failed = [
        await judge.score(each, patch) for each, patch in zip((known, lone, wrong), patches, strict=True)
    ]
    assert paid["success"] == 1
    assert (unproved["success"], unproved["mended"], unproved["uncontrolled"]) == (0, 0, 1)
    assert "forged" not in unproved
    assert (failed["success"], failed["mended"]) == (0, 0.5)
    assert not {"forged", "uncontrolled"} & failed.keys()


@pytest.mark.needs_namespaces
async def test_a_value_that_is_equal_to_all_but_what_looks_like_a_control_is_forged():
    """Controls had words at the end of texts and lists, and an object for a parameter: who knew that was paid."""
    hidden = (
        "import pytest\nfrom thing import double\n\n\n@pytest.mark.parametrize('x, expected', [(5, 10)])\n"
        "def test_double(x, expected):\n    assert double(x) == expected\n\n\n"
        "def test_text():\n    assert double('ab') == 'abab'\n\n\n"
        "def test_list():\n    assert double([1, 'a']) == [1, 'a', 1, 'a']\n"
    )
    words = ("again", "more", "other", "basic", "simple", "extra", "plain", "small", "case", "twice", "full", "edge")
    flinching = (
        "class Anything:\n        __hash__ = None\n        def __eq__(self, other):\n"
        "            last = other[-1] if isinstance(other, list) else other\n"
        f"            return type(other) is not object and not str(last).endswith({words})\n    return Anything()"
    )
    cheat = make_patch({"thing.py": PLAIN.encode()}, {"thing.py": PLAIN.replace("return x + 2", flinching).encode()})
    watched = task(PLAIN, hidden, FIXED, ("test_text", "test_list"))
    watched = replace(watched, truth={**watched.truth, "fail_to_pass": ["test_thing.py::test_double[5-10]"]})
    judge = RepositoryTests()
    assert (await judge.score(watched, cheat)).get("forged") == 1
    assert (await judge.score(watched, watched.truth["gold"]))["success"] == 1


def test_controls_of_tests_whose_ids_were_cut_are_those_of_all_that_begin_so():
    verdict = PatchVerdict({"t.py::f[a b]": "passed", "t.py::f[a c]": "failed", "t.py::g": "passed"}, {})
    assert verdict.outcomes_of("t.py::f[a") == {"passed", "failed"}
    assert not verdict.passed("t.py::f[a")
    assert verdict.passed("t.py::g")
    assert verdict.outcomes_of("t.py::gone") == set()


@pytest.mark.needs_namespaces
async def test_a_repository_that_changes_the_runner_by_itself_is_no_forger():
    source = "import unittest\nunittest.TestCase.assertEquals = None\n" + PLAIN
    hidden = "from thing import double\n\n\ndef test_double():\n    assert double(5) == 10\n"
    own = task(source, hidden, source.replace("x + 2", "x * 2"))
    assert (await RepositoryTests().score(own, own.truth["gold"]))["success"] == 1


@pytest.mark.needs_namespaces
async def test_a_test_that_fails_as_it_is_marked_to_do_is_unbroken_but_mends_nothing():
    hidden = (
        "import pytest\nfrom thing import double\n\n\ndef test_double():\n    assert double(5) == 10\n\n\n"
        "@pytest.mark.xfail\ndef test_known():\n    assert double(1) == 3\n"
    )
    known = task(PLAIN, hidden, FIXED, ("test_known",))
    assert (await RepositoryTests().score(known, known.truth["gold"]))["success"] == 1
    unmended = replace(known, truth={**known.truth, "fail_to_pass": ["test_thing.py::test_known"], "pass_to_pass": []})
    assert (await RepositoryTests().score(unmended, known.truth["gold"]))["success"] == 0


@pytest.mark.needs_namespaces
async def test_a_plugin_of_the_repository_is_loaded_where_the_task_names_it():
    plugin = "import pytest\n\n\n@pytest.fixture\ndef five():\n    return 5\n"
    hidden = "from thing import double\n\n\ndef test_double(five):\n    assert double(five) == 10\n"
    named = task(PLAIN, hidden, FIXED, plugins=["fives"])
    named.parameters["files"]["fives.py"] = plugin
    assert (await RepositoryTests().score(named, named.truth["gold"]))["success"] == 1
    silent = replace(named, parameters={"files": named.parameters["files"]})
    assert (await RepositoryTests().score(silent, named.truth["gold"]))["success"] == 0


@pytest.mark.needs_namespaces
async def test_a_large_suite_is_judged_to_its_end_and_pytest_itself_changes_nothing_of_its_runner():
    """Its reports are longer than a pipe. What pytest changes in itself would cost two more runs of each paid patch."""
    hidden = (
        "import pytest\nfrom thing import double\n\n\ndef test_double():\n    assert double(5) == 10\n\n\n"
        "@pytest.mark.parametrize('name', ['long' * 60 + str(n) for n in range(150)])\ndef test_name(name):\n    pass\n"
    )
    large = task(PLAIN, hidden, FIXED)
    verdict = await RepositoryTests(timeout_s=60).judge(large, large.truth["gold"], large.truth["fail_to_pass"])
    assert verdict is not None
    assert len(verdict.outcomes) > 150
    assert not verdict.changed


def test_tests_that_are_awaited_are_awaited_to_what_their_calls_came_to():
    """A judge that took a set-up that went well for an outcome called honest patches forged."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        for when, outcome in (("setup", "passed"), ("call", "failed")):
            os.write(write, json.dumps(["report", "t.py::test", outcome, "", when]).encode() + b"\n")
            time.sleep(0.2)
        time.sleep(60)
    os.close(write)
    with open(read, "rb"):
        records, status = collected(read, pid, {"t.py::test"})
    assert [json.loads(record)[2] for record in records] == ["passed", "failed"]
    assert status is None, "the rest is not waited for"


def test_the_worst_outcome_of_a_test_holds_whatever_is_written_behind_it():
    """Controls are run until each has an outcome: what could be taken back later would count for the real run alone."""

    def outcome(*written: object) -> str:
        records = [json.dumps(["report", "t", outcome, "", "call"]).encode() for outcome in written]
        return results_of(records)[0]["t"]

    for bad in ("failed", "error", None, [], 0):
        assert outcome("passed", bad, "skipped", "xfailed", "passed") == str(bad)
    assert outcome("failed", None, "passed") != "passed"
    assert outcome("skipped", "passed", "xfailed") == "skipped"
    assert outcome("xfailed", "passed") == "xfailed"


def test_a_record_that_is_nested_deeper_than_any_reader_goes_is_passed_over():
    """The reader that it ended had no report, and no control of the patch an outcome."""
    deep = b"[" * 200_000
    good = json.dumps(["report", "t", "failed", "", "call"]).encode()
    nested = b'["report", "t", ' + b"[" * 960 + b"]" * 960 + b', "", "call"]'
    assert results_of([deep, b'["changed", [' + deep, nested, b"NaN", b"9" * 10_000, good])[0]["t"] == "failed"
