"""Controls read like other tests, and what stands in the way of the judge's tests is a wrong patch."""

from __future__ import annotations

import ast
import inspect
import random
import re
import textwrap
from dataclasses import replace

import pytest

from agentgym import Task
from agentgym.sandboxes.swe.control_values import other, rows_of
from agentgym.sandboxes.swe.controls import control_of, unseen
from agentgym.sandboxes.swe.judge import RepositoryTests
from agentgym.sandboxes.swe.patch import make_patch

SEEN = """import pytest
from thing import double, half


def test_half():
    assert half(6) == 3
"""
SOURCE = f"""{SEEN}

@pytest.mark.parametrize("x, expected", [(5, 10), (7, 14), pytest.param(0, 0, id="nothing"), ("ab", "abab")])
def test_double(x, expected):
    assert double(x) == expected


@pytest.mark.parametrize("x", [1, 2])
@pytest.mark.parametrize("expected", [[3], [4]])
def test_of_two_marks(x, expected):
    assert [x] == expected


@pytest.mark.parametrize("text", ["a", "b"])
def test_there_and_back(text):
    twice = double(text)
    assert twice[:1] == text


def test_of_a_name():
    expected = 10
    assert double(5) == expected


def test_of_an_error():
    with pytest.raises(ValueError):
        half("a")


def test_of_a_part():
    assert "b" in double("ab")
    assert not half(1)
"""
ROWS = ["test_double[5-10]", "test_double[7-14]", "test_double[nothing]", "test_double[ab-abab]"]


def changed(*tests: str, seen: str = "") -> tuple[set[str], set[str]]:
    """The lines of the controls of tests, and their ids, by many seeds."""
    lines, ids = set(), set()
    for seed in range(40):
        text, controls = control_of(SOURCE, tests, random.Random(seed), seen)
        lines |= set(text.split("\n")) - set(SOURCE.split("\n"))
        ids |= controls.keys()
        assert set(controls.values()) == set(tests)
    return lines, ids


def test_the_rows_of_a_parametrised_test_have_other_values_and_the_ids_that_these_have():
    lines, ids = changed(*ROWS)
    assert lines
    for line in lines:
        rows = rows_of(ast.parse(f"{line}\ndef f(x, expected): ...").body[0])
        assert len(rows) == 4
        assert {f"test_double[{row}]" for row in rows} <= ids
        assert not {"5-10", "7-14", "ab-abab"} & rows.keys()


def test_where_ids_are_not_sure_the_expected_value_is_changed_where_it_is_compared():
    lines, ids = changed("test_of_two_marks[3-1]")
    assert ids == {"test_of_two_marks[3-1]"}
    assert lines
    assert all(re.fullmatch(r"    assert \[x\] == \(expected, \d17\)", line) for line in lines)


def test_a_value_that_is_given_as_well_is_changed_only_where_it_is_compared():
    """Who gives back what he is given passed the control."""
    lines, ids = changed("test_there_and_back[a]")
    assert ids == {"test_there_and_back[a]"}
    assert lines
    assert all(re.fullmatch(r"    assert twice\[:1\] == text \+ '\w'", line) for line in lines)


def test_a_literal_is_changed_where_there_is_one_and_errors_and_conditions_are_others():
    assert all(re.fullmatch(r"    expected = \d+", line) for line in changed("test_of_a_name")[0])
    errors = changed("test_of_an_error")[0]
    assert len(errors) > 2
    assert all(re.fullmatch(r"    with pytest.raises\((?!ValueError)\w+Error\):", line) for line in errors)
    assert changed("test_of_a_part")[0] == {'    assert "b" not in double("ab")', "    assert half(1)"}


def test_equal_literals_become_equal_ones():
    for seed in range(20):
        text, _ = control_of(SOURCE, ["test_of_a_name", *ROWS], random.Random(seed))
        [assigned] = re.findall(r"expected = (\d+)", text)
        assert f"(5, {assigned})" in text


def test_what_the_agent_has_seen_is_left_as_it_is():
    assert unseen(SOURCE, ["test_half", "test_of_a_name", "gone"], SEEN) == ["test_of_a_name"]
    assert unseen(SOURCE, ["test_half"], "") == ["test_half"]
    for text in (
        "def test_a():\n    assert f() == 1  # one\n\n\nX = 2\n",
        "class A:\n    def test_b(self):\n        f()",
    ):
        assert not unseen(text, ["test_a", "A::test_b"], text)
    seen = "assert not half(1)"
    assert changed("test_of_a_part", seen=seen)[0] == {'    assert "b" not in double("ab")'}


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, "a b"), (2.5, None), (True, b"x"), ([1], {"a": 1}), ("", (1, 2)), pytest.param(3, 4, id="own"), (-1, 1e3)],
)
def test_the_ids_of_rows_are_those_of_pytest(value, expected, request):
    source = textwrap.dedent(inspect.getsource(test_the_ids_of_rows_are_those_of_pytest))
    row = rows_of(ast.parse(source).body[0])[request.node.callspec.id]
    assert ast.literal_eval(row.values["value"]) == value
    assert row.id_with("expected", expected) == row.id


def test_another_number_has_the_parity_of_the_first():
    assert all((other(10, random.Random(seed), exact=True) - 10) % 2 == 0 for seed in range(20))


PLAIN = "def double(x):\n    return x + 2\n"
HIDDEN = "from thing import double\n\n\ndef test_double():\n    assert double(5) == 10\n"
TASK = Task(
    "blocked",
    "agentgym/swe-v1",
    "-",
    parameters={"files": {"thing.py": PLAIN}},
    truth={
        "fail_to_pass": ["tests/test_thing.py::test_double"],
        "tests": ["tests/test_*.py"],
        "files": {"tests/test_thing.py": HIDDEN},
    },
)


@pytest.mark.needs_namespaces
async def test_a_patch_that_stands_where_the_tests_belong_is_wrong_and_ends_no_judge():
    """It ended the judge with an error of the file system, so that an agent could void an episode."""
    by_patch = {"files": {}, "test_patch": make_patch({}, {"tests/test_thing.py": HIDDEN.encode()})}
    patched = replace(TASK, truth={**TASK.truth, **by_patch})
    for task, path in ((TASK, "tests"), (patched, "tests/test_thing.py/x")):
        components = await RepositoryTests().score(task, make_patch({}, {path: b"x\n"}))
        assert (components["success"], components["modified"]) == (0, 1)
        fix = make_patch({"thing.py": PLAIN.encode()}, {"thing.py": PLAIN.replace("+", "*").encode()})
        assert (await RepositoryTests().score(task, fix))["success"] == 1
