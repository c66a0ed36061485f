"""Node's own test runner, in TAP. Ids are names, after those of the enclosing suites: "stack > pops"."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from .runner import FAILED, PASSED, SKIPPED, Canary, Report, SuiteRunner, name_of_a_test

SUBTEST = re.compile(r"^((?:    )*)# Subtest: (.*)$")
RESULT = re.compile(r"^((?:    )*)(not )?ok \d+ - (.*?)(?: # (SKIP|TODO)\b.*)?$")
FILE = re.compile(r"^/?[^ ]*\.[cm]?[jt]s$")
BETWEEN = " > "


def parse_tap(text: str) -> Report:
    """Parse TAP, in which subtests are indented by four spaces. The tests' output appears as comments, so it is never
    read as a result.

    Node 18 reports a file as a test around its tests; the ids of the tests leave the file out.
    """
    report = Report()
    names: list[str] = []
    failed = ""
    reason: list[str] = []
    for line in text.splitlines():
        if match := SUBTEST.match(line):
            names[len(match[1]) // 4 :] = [_plain(match[2])]
        elif match := RESULT.match(line):
            path = [*names[: len(match[1]) // 4], _plain(match[3])]
            test = BETWEEN.join(path[1:] if len(path) > 1 and FILE.match(path[0]) else path)
            outcome = SKIPPED if match[4] else FAILED if match[2] else PASSED
            report.add(test, outcome)
            failed, reason = (test if outcome == FAILED else ""), []
        elif failed and line.strip() == "...":
            report.add(failed, FAILED, "\n".join(reason))
            failed = ""
        elif failed:
            reason.append(line.strip())
    return report


def _plain(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _canary(files: Mapping[str, str], rng: random.Random) -> Canary | None:
    path = next((path for path in sorted(files) if re.search(r"\.[cm]?js$", path)), "")
    if not path:
        return None
    words = name_of_a_test(rng)
    code = f"import('node:test').then(({{ test }}) => test('{words}', () => {{ throw new Error('no'); }}));\n"
    return Canary(str(PurePosixPath(path).with_name(f"{words}.test{PurePosixPath(path).suffix}")), code, words)


NODE = SuiteRunner(
    "Node's test runner",
    ("node",),
    "node --test --test-reporter=tap",
    parse_tap,
    ("package.json", "package-lock.json", ".npmrc", "node_modules/*"),
    _canary,
    r"\n?duration_ms:? [\d.]+",
)
