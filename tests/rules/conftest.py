"""What the rules share: the syntax trees of the whole project, which one process reads once."""

from __future__ import annotations

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.together("the source tree"))
