"""What the workers on a cluster are doing now, as seen from any process that is connected to the cluster."""

from __future__ import annotations

import uuid
from collections import Counter

from agentgym.cluster.ray_nodes import NAMESPACE, import_ray

ANSWER_S = 5.0
"""How long the workers may take to report their activity."""
_PREFIX = "episodes"


def worker_name(node_id: str) -> str:
    """Return a name for a new worker of a node. Each run on a cluster has its own worker on every node."""
    return f"{_PREFIX}/{node_id}/{uuid.uuid4().hex[:12]}"


def activity_by_node() -> dict[str, dict[str, int]]:
    """Return per node id the sums over its workers: `workers`, `silent` ones that did not answer in time, and the
    counts of `EpisodeWorker.activity`. Omit nodes without a worker."""
    ray = import_ray()
    actors = ray.util.list_named_actors(all_namespaces=True)
    names = [row["name"] for row in actors if row["namespace"] == NAMESPACE and row["name"].startswith(f"{_PREFIX}/")]
    by_node: dict[str, Counter[str]] = {}
    references = {}
    for name in names:
        by_node.setdefault(name.split("/")[1], Counter())["workers"] += 1
        try:
            references[ray.get_actor(name, namespace=NAMESPACE).activity.remote()] = name.split("/")[1]
        except ValueError:  # the actor has ended meanwhile
            continue
    answered, silent = (
        ray.wait([*references], num_returns=len(references), timeout=ANSWER_S) if references else ([], [])
    )
    for reference in silent:
        by_node[references[reference]]["silent"] += 1
    for reference in answered:
        try:
            by_node[references[reference]].update(ray.get(reference))
        except ray.exceptions.RayError:
            by_node[references[reference]]["silent"] += 1
    return {node: dict(counts) for node, counts in by_node.items()}
