"""A real Ray cluster on this host."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
from simulated_cluster import simulated_cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of Ray on this host, and no connection of this process to them."""
    with simulated_cluster(2, cpus=2) as two_nodes:
        yield two_nodes
