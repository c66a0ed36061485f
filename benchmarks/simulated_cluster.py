"""A Ray cluster whose nodes share this host, for benchmarks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def simulated_cluster(nodes: int) -> Iterator[str]:
    """A Ray cluster of so many nodes on this host. Gives its address; at the end this process is disconnected."""
    os.environ |= {"RAY_worker_niceness": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        for _ in range(nodes - 1):
            cluster.add_node(num_cpus=1)
        yield cluster.address
    finally:
        ray.shutdown()
        cluster.shutdown()
