"""What `make test` plays of many similar things that take long; `make test-all` plays all of them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
LONG_S, TURNS = 2.0, 4


def some_by_day(items: Sequence[T], count: int) -> list[T]:
    """Return this many of the items, spread over them; all of them at night, when AGENTGYM_TEST_ALL is set."""
    if "AGENTGYM_TEST_ALL" in os.environ or count >= len(items):
        return list(items)
    return [items[number * len(items) // count] for number in range(count)]


def cases(items: Iterable[T], *, by_day: Collection[T]) -> list[Any]:
    """Return the cases of a test; those of items that are not named are played at night alone."""
    return [pytest.param(item, marks=[] if item in by_day else [pytest.mark.thorough]) for item in items]


def wait_for_their_turn(seconds: Mapping[str, float], commit: str) -> set[str]:
    """Return the long ones among tests that this commit leaves to others: each commit plays a quarter of them.

    Args:
        seconds: what each test takes, by its id.
        commit: its id, which chooses: who tries the same commit again plays the same tests.
    """
    long = sorted((test for test in seconds if seconds[test] >= LONG_S), key=lambda test: (seconds[test], test))
    return {*long} - {*long[int(commit, 16) % TURNS :: TURNS]}
