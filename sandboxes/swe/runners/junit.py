"""JUnit's XML, which many runners write: Maven, Gradle, Jest, PHPUnit, GoogleTest. Ids are classname::name."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import Any, cast

from .runner import FAILED, PASSED, SKIPPED, Report, SuiteRunner

MAX_CHARS, MAX_DEPTH, PIECE = 2**24, 100, 2**12


def parse_junit(text: str) -> Report:
    """Parse the consecutive documents in a text, except any with a document type, which could define entities."""
    report = Report()
    for part in re.split(r"<\?xml\b[^<>]*\?>", text[:MAX_CHARS]):
        start, end = part.find("<testsuite"), max(part.rfind("</testsuites>"), part.rfind("</testsuite>"))
        if start < 0 or end < 0 or re.search(r"<!(DOCTYPE|ENTITY)", part):
            continue
        try:
            cases = list(_cases(part[start : part.index(">", end) + 1]))
        except ElementTree.ParseError:
            continue
        for test, outcome, reason in cases:
            report.add(test, outcome, reason)
    return report


def _cases(document: str) -> Iterator[tuple[str, str, str]]:
    """Yield id, outcome and reason of a document's test cases; nothing else of the document is kept.

    Raises: ParseError, also for a document that is nested deeper than any report.
    """
    parser: ElementTree.XMLPullParser[Any] = ElementTree.XMLPullParser(("start", "end"))
    around: list[ElementTree.Element] = []
    case: ElementTree.Element | None = None
    outcome, reason = PASSED, ""
    for at in range(0, len(document), PIECE):
        parser.feed(document[at : at + PIECE])
        for event, element in cast("Iterator[tuple[str, ElementTree.Element]]", parser.read_events()):
            if event == "start":
                around.append(element)
                if len(around) > MAX_DEPTH:
                    raise ElementTree.ParseError(f"nested deeper than {MAX_DEPTH}")
                if case is None and element.tag == "testcase":
                    case, outcome, reason = element, PASSED, ""
                continue
            around.pop()
            outer = around[-1] if around else None
            if outer is not None and outer is case and outcome != FAILED:
                if element.tag in ("failure", "error"):
                    outcome, reason = FAILED, f"{element.get('message') or ''}\n{element.text or ''}".strip()
                elif element.tag == "skipped":
                    outcome = SKIPPED
            if element is case:
                yield "::".join(filter(None, (case.get("classname"), case.get("name")))), outcome, reason
                case = None
            if outer is not None:
                outer.remove(element)
    parser.close()


JUNIT = SuiteRunner(
    "JUnit XML",
    (),
    "",
    parse_junit,
    ("pom.xml", "*.gradle", "*.gradle.kts", "package.json", "Makefile"),
    durations=r' (time|timestamp)="[^"]*"',
)
