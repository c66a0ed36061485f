"""A real Ray cluster on this host."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
from simulated_cluster import simulated_cluster

USERS = "a cluster of Ray"
"""Tests marked `together` with this name share one cluster, which takes ten seconds of a processor to start."""
_running = ExitStack()
_clusters: list[Any] = []


@pytest.fixture
def cluster() -> Any:
    """Two nodes of Ray on this host. The first user has no connection to them; a test that removes one adds another."""
    if not _clusters:
        _clusters.append(_running.enter_context(simulated_cluster(2, cpus=2)))
    return _clusters[0]


def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """End the cluster before a test that is not one of its users: while it runs, its processes are never idle."""
    mark = nextitem and nextitem.get_closest_marker("together")
    if _clusters and not (mark and mark.args == (USERS,)):
        _clusters.clear()
        _running.close()
