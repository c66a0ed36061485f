"""What the tests of the kit expect to find."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentgym.errors import ConformanceError


@contextmanager
def breach(*fragments: str) -> Iterator[None]:
    """Expect a ConformanceError of which one finding holds all fragments."""
    with pytest.raises(ConformanceError) as caught:
        yield
    assert_names(caught.value.findings, *fragments)


def assert_names(findings: list[str], *fragments: str) -> None:
    """One finding holds all fragments."""
    assert any(all(f in finding for f in fragments) for finding in findings), "\n".join(findings) or "nothing was found"
