"""Estimates how hard a bug is to find and fix, from the functions that tests reach and the size of the fix."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


class Reach:
    """The functions that each test reaches, in a repository without a bug.

    Args:
        functions: path:name. `by_test`: maps each test to the indices in `functions` of the functions that it reaches.
    """

    def __init__(self, functions: Sequence[str], by_test: Mapping[str, Sequence[int]]) -> None:
        self._functions = list(functions)
        self._tests: dict[int, set[str]] = {}
        for test, numbers in by_test.items():
            for number in numbers:
                self._tests.setdefault(number, set()).add(test)

    def tests_of(self, path: str, function: str) -> set[str]:
        """Return the tests that reach a function or anything in it: reaching a method reaches its class."""
        name = f"{path}:{function}"
        return {
            test
            for number, known in enumerate(self._functions)
            if known == name or known.startswith(f"{name}.")
            for test in self._tests.get(number, ())
        }

    def rank(self, path: str, function: str, failing: Sequence[str]) -> int:
        """Return a function's rank, from 1, when functions are sorted by how much the failing tests incriminate them.

        Source: Ochiai's coefficient for locating faults, Abreu et al. 2006 (doi:10.1109/PRDC.2006.18), for functions.
        """
        failing_tests = set(failing)
        own = _ochiai(self.tests_of(path, function), failing_tests)
        return max(1, sum(_ochiai(tests, failing_tests) >= own for tests in self._tests.values()))


def difficulty(ranks: Sequence[int], fix: str) -> tuple[float, dict[str, Any]]:
    """Estimate difficulty: log2(1 + rank) summed over a bug's places, plus log2(1 + lines changed by the fix).

    Returns: the estimate, and the values from which it was computed.
    """
    lines = changed_lines(fix)
    value = sum(math.log2(1 + rank) for rank in ranks) + math.log2(1 + lines)
    return round(value, 3), {"ranks": list(ranks), "changed_lines": lines}


def _ochiai(tests: set[str], failing: set[str]) -> float:
    both = len(tests & failing)
    return both / math.sqrt(len(failing) * len(tests)) if both else 0.0


def changed_lines(patch: str) -> int:
    """Return the number of lines that a patch adds or removes, whichever is larger."""
    lines = patch.splitlines()
    return max(sum(line.startswith(sign) and not line.startswith(sign * 3) for line in lines) for sign in "+-")
