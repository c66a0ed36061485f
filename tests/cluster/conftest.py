"""A real Ray cluster on this host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from simulated_cluster import simulated_cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of Ray on this host, and no connection of this process to them."""
    with simulated_cluster(2, cpus=2) as two_nodes:
        yield two_nodes
