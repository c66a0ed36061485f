"""JUnit's XML, which many runners write: Maven, Gradle, Jest, PHPUnit, GoogleTest. Ids are classname::name."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

from .runner import FAILED, PASSED, SKIPPED, Report, SuiteRunner

MAX_CHARS = 2**24


def parse_junit(text: str) -> Report:
    """All documents in a text, one behind another. None with a document type, which could define entities."""
    report = Report()
    for part in re.split(r"<\?xml\b[^>]*\?>", text[:MAX_CHARS]):
        start, end = part.find("<testsuite"), max(part.rfind("</testsuites>"), part.rfind("</testsuite>"))
        if start < 0 or end < 0 or re.search(r"<!(DOCTYPE|ENTITY)", part):
            continue
        try:
            root = ElementTree.fromstring(part[start : part.index(">", end) + 1])
        except ElementTree.ParseError:
            continue
        for case in root.iter("testcase"):
            test = "::".join(filter(None, (case.get("classname"), case.get("name"))))
            wrong = next((child for child in case if child.tag in ("failure", "error")), None)
            if wrong is not None:
                report.add(test, FAILED, f"{wrong.get('message') or ''}\n{wrong.text or ''}".strip())
            else:
                report.add(test, SKIPPED if case.find("skipped") is not None else PASSED)
    return report


JUNIT = SuiteRunner(
    "JUnit XML",
    (),
    "",
    parse_junit,
    ("pom.xml", "*.gradle", "*.gradle.kts", "package.json", "Makefile"),
    durations=r' (time|timestamp)="[^"]*"',
)
