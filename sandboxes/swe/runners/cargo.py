"""`cargo test`. Ids are file::test, such as src/lib.rs::tests::adds, and doc::name for documentation tests."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping

from .runner import FAILED, PASSED, SKIPPED, Canary, Report, SuiteRunner, name_of_a_test

RUNNING = re.compile(r"^\s+Running (?:unittests )?(\S+) \(")
RESULT = re.compile(r"^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)\b")
REASON = re.compile(r"^---- (.+?) stdout ----$")


def parse_cargo(text: str) -> Report:
    """Parse the merged output and error streams, in which a file's name comes before its tests."""
    report = Report()
    file, reason_of = "", ""
    reasons: dict[str, list[str]] = {}
    for line in text.splitlines():
        if match := RUNNING.match(line):
            file = match[1]
        elif line.strip().startswith("Doc-tests "):
            file = "doc"
        elif match := RESULT.match(line):
            report.add(f"{file}::{match[1]}", {"ok": PASSED, "FAILED": FAILED}.get(match[2], SKIPPED))
        elif match := REASON.match(line):
            reason_of = f"{file}::{match[1]}"
        elif line == "failures:":
            reason_of = ""
        elif reason_of:
            reasons.setdefault(reason_of, []).append(line)
    for test, lines in reasons.items():
        if report.outcomes.get(test) == FAILED:
            report.add(test, FAILED, "\n".join(lines).strip())
    return report


def _canary(files: Mapping[str, str], rng: random.Random) -> Canary | None:
    name = name_of_a_test(rng)
    return Canary(f"tests/{name}.rs", f"#[test]\nfn {name}() {{\n    assert_eq!(1, 2);\n}}\n", f"::{name}")


CARGO = SuiteRunner(
    "cargo test",
    ("cargo",),
    "CARGO_HOME=/work/.cargo CARGO_TARGET_DIR=/work/target cargo test --offline --no-fail-fast 2>&1",
    parse_cargo,
    ("Cargo.toml", "Cargo.lock", "*/Cargo.toml", "build.rs", "*/build.rs", ".cargo/*"),
    _canary,
    r"(; finished)? in [\d.]+s\b",
)
