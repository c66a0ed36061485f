"""What `make test` plays of many similar things that take long; `make test-all` plays all of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def some_by_day(items: Sequence[T], count: int) -> list[T]:
    """Return this many of the items, spread over them; all of them at night, when AGENTGYM_TEST_ALL is set."""
    if "AGENTGYM_TEST_ALL" in os.environ or count >= len(items):
        return list(items)
    return [items[number * len(items) // count] for number in range(count)]
