"""Connect to a Ray cluster, and check that each node can play episodes before sending any there."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import tempfile
import uuid
from collections import Counter
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentgym._imports import install_command
from agentgym.cluster.episode_worker import fault_of
from agentgym.cluster.host_link import HostNode
from agentgym.cluster.ray_access import check_connected_to, own_sigterm, send_token_if_asked
from agentgym.errors import ClusterError, MissingExtraError
from agentgym.text import counted

CONNECT_S = 5.0
NAMESPACE = "agentgym"
"""The Ray namespace of our actors."""
PROBE_S = 120.0
"""How long a node may take to start a worker and try a sandbox before `agentgym cluster probe` calls it unusable."""
SLOWEST_S = 600.0
"""The same for runs, which do not wait for a slow node if they have another. Then another worker is tried."""
_CURRENT_CLUSTER = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir(), "ray", "ray_current_cluster")
"""The file where Ray notes the cluster last started on this host."""
NICE_VARIABLE = "RAY_worker_niceness"
"""Ray's variable for the niceness of its processes. Its default, 15, starves sandboxes."""
_REPORTED_ELSEWHERE = "A worker died or was killed|Raylet is terminated|has been marked dead"
"""What Ray would print on standard output, in twenty lines, for each worker or node that a run replaces."""


def import_ray() -> Any:
    """Return the module ray. Raises: MissingExtraError without the extra `cluster`."""
    if find_spec("ray") is None:
        raise MissingExtraError(
            f"A cluster needs the package ray, which is not installed. Run: {install_command('cluster')}"
        )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", _REPORTED_ELSEWHERE)
    import ray

    return ray


def connect(address: str, nodes: int | None = None) -> list[HostNode]:
    """Connect this process to a cluster, unless it is connected, and return the live nodes.

    Args:
        nodes: the minimum number of nodes.
    Raises: ClusterError if no cluster runs at the address, if the cluster has another version or fewer nodes, if this
        host lacks its token, or if this process is connected to another cluster.
    """
    ray = import_ray()
    if ray.is_initialized():
        check_connected_to(address, ray)
    else:
        try:
            reached = reachable(address)
            send_token_if_asked(reached)
            with own_sigterm():
                ray.init(address=reached, log_to_driver=False, configure_logging=False, namespace=NAMESPACE)
        except ClusterError:
            raise
        except (ConnectionError, RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ClusterError(
                f"There is no usable Ray cluster at {address!r} ({type(error).__name__}: {reason}). Start one by "
                "`agentgym cluster up`, and give its address as machine.address or --address."
            ) from error
    alive = live_nodes()
    if nodes is not None and len(alive) < nodes:
        raise ClusterError(
            f"The cluster at {address!r} has {counted(len(alive), 'node')}, but machine.nodes asks for {nodes}. Add "
            "one by `agentgym cluster up --join ADDRESS` on its host, or ask for fewer."
        )
    return alive


def live_nodes() -> list[HostNode]:
    """Return the live nodes of the cluster that this process is connected to; none if it is not."""
    ray = import_ray()
    return [
        HostNode(row["NodeID"], str(row["NodeManagerAddress"]), max(1, int(row["Resources"].get("CPU", 1))))
        for row in (ray.nodes() if ray.is_initialized() else ())
        if row["Alive"]
    ]


def reachable(address: str) -> str:
    """Resolve `auto` to this host's cluster and return the address after checking that its port answers.

    Ray itself would try for minutes.
    Raises: OSError, ValueError.
    """
    if address == "auto":
        try:
            address = os.environ.get("RAY_ADDRESS") or _CURRENT_CLUSTER.read_text().strip()
        except OSError as error:
            raise ConnectionError("Ray is not running on this host") from error
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    return address


async def facts_of(worker: Any, backend: str | None, limit_s: float = PROBE_S) -> dict[str, Any]:
    """Return a worker's facts (`EpisodeWorker.probe`); `broken` is why it gave none."""
    try:
        async with asyncio.timeout(limit_s):
            answer: dict[str, Any] = await worker.probe.remote(backend)
            return answer
    except TimeoutError:
        return {"broken": f"no worker answered within {limit_s:g} s"}
    except Exception as error:  # noqa: BLE001  after any error the node is unusable
        reason = re.split(r"^\s.*\n", str(error).strip(), flags=re.MULTILINE)[-1]  # the text after a traceback or list
        return {"broken": f"its worker failed: {type(error).__name__}: {' '.join(reason.split()).removesuffix('.')}"}


def fault_in(answer: Mapping[str, Any]) -> str:
    """Return why a node cannot be used; empty if it can."""
    if "broken" in answer:
        return f"{answer['broken']}."
    if answer["nice"] > max(0, os.nice(0)):  # allowed if this process runs at the same low priority
        return (
            f"its workers run at nice {answer['nice']}, which starves sandboxes. Start Ray there by `agentgym cluster "
            f"up`, or with {NICE_VARIABLE}=0 in its environment, from a shell of normal priority."
        )
    return fault_of(answer)


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
