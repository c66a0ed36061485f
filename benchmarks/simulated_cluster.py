"""A Ray cluster whose nodes share this host, for benchmarks and tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from agentgym.cluster.ray_nodes import NICE_VARIABLE, import_ray


@contextmanager
def simulated_cluster(nodes: int, *, cpus: int = 1) -> Iterator[Any]:
    """Start a Ray cluster of this many nodes on this host, and end it and its processes on exit.

    Args:
        cpus: the number of CPUs that each node declares.
    Yields: `ray.cluster_utils.Cluster`, with its `address`. This process is not connected to it, and is disconnected
        at the end.
    """
    os.environ[NICE_VARIABLE] = "0"
    ray = import_ray()
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": cpus, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            cluster.add_node(num_cpus=cpus)
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()
