"""pytest and unittest, run by a command. Without a command, pytest has its own judge, which is harder to fool."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from .runner import FAILED, PASSED, SKIPPED, Canary, Report, SuiteRunner, name_of_a_test

SUMMARY = re.compile(r"^(PASSED|FAILED|ERROR|XFAIL|XPASS) (\S.*?)(?: - (.*))?$")
PYTEST_OUTCOMES = {"PASSED": PASSED, "FAILED": FAILED, "ERROR": FAILED, "XFAIL": SKIPPED, "XPASS": PASSED}
STARTED = re.compile(r"^(\w+) \(([\w.]+)\)(?: \.\.\. (.*))?$")
ENDED = re.compile(r"(?:^|\.\.\. )(ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)$")
HEADING = re.compile(r"^(FAIL|ERROR): (\w+) \(([\w.]+)\)")


def parse_pytest(text: str) -> Report:
    """Parse the summary that `-rA` prints. Ids are pytest's."""
    report = Report()
    for line in text.splitlines():
        if match := SUMMARY.match(line):
            report.add(match[2], PYTEST_OUTCOMES[match[1]], match[3] or "")
    return report


def parse_unittest(text: str) -> Report:
    """Parse the output of `-v`. Ids are module.Class.test, in every version of Python."""
    report = Report()
    current = ""
    for line in text.splitlines():
        if heading := HEADING.match(line):
            report.add(_unittest_id(heading[2], heading[3]), FAILED)
            continue
        if started := STARTED.match(line):
            current = _unittest_id(started[1], started[2])
        if current and (ended := ENDED.search(line)):
            outcome = {"o": PASSED, "F": FAILED, "E": FAILED, "u": FAILED}.get(ended[1][0], SKIPPED)
            report.add(current, PASSED if ended[1] == "expected failure" else outcome)
            current = ""
    return report


def _unittest_id(name: str, where: str) -> str:
    return where if where.endswith(f".{name}") else f"{where}.{name}"  # Python 3.11 prints the name twice


def _canary(files: Mapping[str, str], rng: random.Random) -> Canary | None:
    path = next((path for path in sorted(files) if path.endswith(".py")), "")
    if not path:
        return None
    name = f"test_{name_of_a_test(rng)}"
    text = (
        f"import unittest\n\n\nclass Case(unittest.TestCase):\n    def {name}(self):\n        self.assertEqual(1, 2)\n"
    )
    return Canary(str(PurePosixPath(path).with_name(f"{name}.py")), text, name)


PROTECTED = ("*conftest.py", "*sitecustomize.py", "*usercustomize.py", "*.pth", "setup.cfg", "pyproject.toml")
TIME = r" in \d+\.\d+s(?: \(\d+:\d\d:\d\d\))?"
PYTEST = SuiteRunner("pytest", ("python3",), "python3 -m pytest -rA", parse_pytest, PROTECTED, _canary, TIME)
UNITTEST = SuiteRunner(
    "unittest", ("python3",), "python3 -m unittest discover -v 2>&1", parse_unittest, PROTECTED, _canary, TIME
)
