"""`go test -json`: one event per line. Ids are package::Test, with subtests after a slash."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from .runner import FAILED, PASSED, SKIPPED, Canary, Report, SuiteRunner, name_of_a_test

OUTCOMES = {"pass": PASSED, "fail": FAILED, "skip": SKIPPED}
SETTINGS = "GOCACHE=/work/.cache/go GOPATH=/work/.go GOPROXY=off CGO_ENABLED=0 GOFLAGS=-buildvcs=false"


def parse_go(text: str) -> Report:
    """Read the events of a run. Lines that are not events, such as those of a failing build, are left out."""
    report = Report()
    output: dict[str, str] = {}
    for line in text.splitlines():
        event = _event(line)
        if not {"Package", "Test", "Action"} <= event.keys():
            continue
        test, action = f"{event['Package']}::{event['Test']}", event["Action"]
        if action == "output":
            output[test] = (output.get(test, "") + event.get("Output", ""))[-4000:]
        elif action in OUTCOMES:
            report.add(test, OUTCOMES[action], output.get(test, ""))
    return report


def _event(line: str) -> dict[str, str]:
    """Return the text fields of an event; nothing if the line is not an event: tests can print anything."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    values = event.items() if isinstance(event, dict) else ()
    return {key: value.encode("utf-8", "replace").decode() for key, value in values if isinstance(value, str)}


def _canary(files: Mapping[str, str], rng: random.Random) -> Canary | None:
    for path, text in sorted(files.items()):
        if path.endswith("_test.go") and (package := re.search(r"^package\s+(\w+)", text, re.M)):
            words = name_of_a_test(rng)
            name = f"Test{words.title().replace('_', '')}"
            code = f'package {package[1]}\n\nimport "testing"\n\nfunc {name}(t *testing.T) {{ t.Fatal("no") }}\n'
            return Canary(str(PurePosixPath(path).with_name(f"{words}_test.go")), code, f"::{name}")
    return None


GO = SuiteRunner(
    "go test",
    ("go",),
    f"{SETTINGS} go test -json ./...",
    parse_go,
    ("go.mod", "go.sum", "go.work"),
    _canary,
    r" ?\(\d+\.\d+s\)|\"Time\":\"[^\"]*\",?|,?\"Elapsed\":[\d.]+",
)
