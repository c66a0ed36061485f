"""CMake's CTest. Every test is a separate program, and reports do not show its output. Ids are the tests' names."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

from .runner import FAILED, PASSED, SKIPPED, Canary, Report, SuiteRunner, name_of_a_test

RESULT = re.compile(r"^\s*+\d++/\d++ Test\s++#\d++: (\S++) \.++(.*?) sec")
BUILD = "cmake -S . -B ../build > ../build.log 2>&1 && cmake --build ../build >> ../build.log 2>&1"
LOGS = "../build/Testing ../build/CMakeFiles/CMake*.log ../build/CMakeFiles/CMakeConfigureLog.yaml"
"""Files with times and random names, which would make all snapshots different."""


def parse_ctest(text: str) -> Report:
    """Parse one line per test. Any status except passed or skipped is a failure: crash, timeout, no program."""
    report = Report()
    for line in text.splitlines():
        if match := RESULT.match(line):
            status = match[2].rstrip("0123456789.").strip()
            outcome = {"Passed": PASSED, "***Skipped": SKIPPED}.get(status, FAILED)
            report.add(match[1], outcome, status.replace("***", " ").strip(" :"))
    return report


def _canary(files: Mapping[str, str], rng: random.Random) -> Canary | None:
    name = name_of_a_test(rng)
    return Canary("CMakeLists.txt", f"\nadd_test(NAME {name} COMMAND ${{CMAKE_COMMAND}} -E false)\n", name)


CTEST = SuiteRunner(
    "CTest",
    ("cmake", "ctest"),
    f"if {BUILD}; then ctest --test-dir ../build; else tail -c 4000 ../build.log >&2; false; fi; "
    f"status=$?; rm -rf {LOGS}; exit $status",
    parse_ctest,
    ("CMakeLists.txt", "*/CMakeLists.txt", "*.cmake", "CTestTestfile.cmake"),
    _canary,
    r"(?<! ) ++[\d.]++ sec\b",
)
