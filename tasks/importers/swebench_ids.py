"""Names of tests as they were recorded, as ids that pytest has for them here."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

PYTEST_ID = re.compile(r"[^\s:]+\.py::\S+")
BARE_NAME = re.compile(r"test\w*(?:\[.*)?")
RECORDED_AT = re.compile(r"/(?:testbed|workspace/[\w.-]+|home/[\w-]+/[\w.-]+|app|repo)(?=/)")
"""Where the sets' own containers have the repository."""
HERE = "/work/repo"


def pytest_ids(
    names: Sequence[str], files: Sequence[str] = (), text_of: Callable[[str], str] = lambda path: ""
) -> list[str]:
    """Return the names that are pytest ids, each once; anything else that was recorded among them is dropped.

    A path from the top of a container is taken off, or replaced by that of the repository here where it is part of a
    parameter. An id that was cut at its first blank stays cut: the judge takes it for all tests that begin so.

    Args:
        files: test files in which names without one may be (sympy records such). `text_of`: what stands in a file.
    """
    ids: dict[str, None] = {}
    for name in names:
        test = RECORDED_AT.sub("", name, count=1).removeprefix("/") if RECORDED_AT.match(name) else name
        test = RECORDED_AT.sub(HERE, test)
        if PYTEST_ID.fullmatch(test):
            ids[test] = None
        elif BARE_NAME.fullmatch(test):
            defined = re.compile(rf"^[ \t]*(?:async )?def {re.escape(test.partition('[')[0])}\(", re.M)
            for file in files:
                if defined.search(text_of(file)):
                    ids[f"{file}::{test}"] = None
                    break
    return list(ids)
