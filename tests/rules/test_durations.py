"""tests/durations.json names tests that exist, and long tests take turns by it."""

from __future__ import annotations

import ast
import json

from by_day import LONG_S, TURNS, wait_for_their_turn
from source_tree import ROOT

DURATIONS = ROOT / "tests" / "durations.json"


def ids_in(file: str) -> set[str]:
    """The ids, without parameters, of the test functions that a file defines or names, and of its classes' methods."""
    path = ROOT / file
    body = ast.parse(path.read_text(encoding="utf-8")).body if path.is_file() else []
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    return {f"{file}::{name}" for name in names_of_functions(body)} | {
        f"{file}::{a_class.name}::{name}" for a_class in classes for name in names_of_functions(a_class.body)
    }


def names_of_functions(body: list[ast.stmt]) -> list[str]:
    named = (name for node in body if isinstance(node, ast.Assign) for name in ast.walk(node.targets[0]))
    functions = [node.name for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return [*functions, *(name.id for name in named if isinstance(name, ast.Name))]


def test_every_test_that_is_listed_as_slow_exists():
    listed = {test.partition("[")[0] for test in json.loads(DURATIONS.read_text())}
    existing = set().union(*map(ids_in, {test.partition("::")[0] for test in listed}))
    assert sorted(listed - existing) == [], "remove these from tests/durations.json, or give them their new names"


def test_four_commits_play_every_long_test_and_each_plays_every_short_one():
    seconds = {**{f"long {number}": LONG_S + number for number in range(12)}, "short": LONG_S - 0.1}
    waiting = [wait_for_their_turn(seconds, f"{commit:x}") for commit in range(10, 10 + TURNS)]
    assert all("short" not in tests for tests in waiting)
    for test in seconds.keys() - {"short"}:
        assert sum(test not in tests for tests in waiting) == 1
    took = [sum(seconds[test] for test in seconds.keys() - tests) for tests in waiting]
    assert max(took) - min(took) <= 12.0, "the turns are of similar length"
