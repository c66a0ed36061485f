"""The definition of a test runner: its command, the parser of its report, and a failing test for it."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
RANK = {SKIPPED: 0, PASSED: 1, FAILED: 2}


@dataclass(slots=True)
class Report:
    """Outcomes of tests.

    A report is text, and the tests may write into it too. So a test reported as failed has failed, whatever else the
    report says, and a test reported as passed was not skipped.

    Attributes:
        outcomes: passed, failed or skipped, by test. `reasons`: the runner's messages about failed tests.
    """

    outcomes: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def add(self, test: str, outcome: str, reason: str = "") -> None:
        if RANK[outcome] >= RANK[self.outcomes.get(test, SKIPPED)]:
            self.outcomes[test] = outcome
        if outcome == FAILED and reason:
            self.reasons[test] = reason[-4000:]


@dataclass(frozen=True, slots=True)
class Canary:
    """A failing test: `text` is appended to the file `path`, or is a new file. `name`: the end of the test's id."""

    path: str
    text: str
    name: str


@dataclass(frozen=True, slots=True)
class SuiteRunner:
    """One test runner.

    Attributes:
        title: its name in a sentence. `needs`: programs that the image must have.
        command: a command for `sh` that runs all tests in the repository and prints the report; empty if the task must
            give one.
        parse: reads the report.
        protected: patterns of further files that decide how tests are found and run: a patch's changes are ignored.
        canary: makes a failing test next to one of the test files (path and text); None if this is not possible.
        durations: a regular expression for the times in the runner's output, which differ from run to run.
    """

    title: str
    needs: tuple[str, ...]
    command: str
    parse: Callable[[str], Report]
    protected: tuple[str, ...] = ()
    canary: Callable[[Mapping[str, str], random.Random], Canary | None] = lambda files, rng: None
    durations: str = "(?!)"

    def without_durations(self, text: str) -> str:
        """Return the runner's output without times. The tests' own output stays unchanged."""
        return re.sub(self.durations, "", text)


def name_of_a_test(rng: random.Random) -> str:
    """Return a random name for a test, such as `keeps_empty_order_31`."""
    verbs, nouns = ("keeps", "reads", "handles", "returns", "accepts"), ("order", "values", "empty", "first", "large")
    return f"{rng.choice(verbs)}_{rng.choice(nouns)}_{rng.choice(nouns)}_{rng.randrange(100)}"
