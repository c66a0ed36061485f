"""Connects to a Ray cluster, and checks that each node can play episodes before any is sent there."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentgym._imports import install_command
from agentgym.cluster.episode_worker import fault_of
from agentgym.cluster.host_link import HostNode
from agentgym.cluster.ray_access import check_connected_to, send_token_if_asked
from agentgym.errors import ClusterError, MissingExtraError

CONNECT_S = 5.0
NAMESPACE = "agentgym"
"""Of the names of our actors."""
PROBE_S = 120.0
"""How long a node may take to start a worker and try a sandbox."""
_CURRENT_CLUSTER = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir(), "ray", "ray_current_cluster")
"""Where Ray notes the cluster that was started last on this host."""
NOTICE_S = 20.0
"""How long Ray may take to notice that a node is dead."""
NICE_VARIABLE = "RAY_worker_niceness"
"""Ray's own variable: the priority of the processes that it starts. Its default, 15, starves sandboxes."""


def import_ray() -> Any:
    """Return the module ray. Raises: MissingExtraError without the extra `cluster`."""
    if find_spec("ray") is None:
        raise MissingExtraError(f"A cluster needs ray, which is not installed. Run: {install_command('cluster')}")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray

    return ray


def connect(address: str, nodes: int | None = None) -> list[HostNode]:
    """Return the nodes of a cluster that are alive; connects this process to it, unless it is.

    Args:
        nodes: how many there must be at least.
    Raises: ClusterError if there is no cluster at the address, one of another version, one that asks for a token that
        this host does not have, or one with fewer nodes; and if this process is connected to another cluster.
    """
    ray = import_ray()
    if ray.is_initialized():
        check_connected_to(address, ray)
    else:
        try:
            reached = reachable(address)
            send_token_if_asked(reached)
            ray.init(address=reached, log_to_driver=False, configure_logging=False, namespace=NAMESPACE)
        except ClusterError:
            raise
        except (ConnectionError, RuntimeError, ValueError, OSError, ray.exceptions.RayError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ClusterError(
                f"There is no Ray cluster to use at {address!r} ({type(error).__name__}: {reason}). Start one by "
                "`agentgym cluster up`, and give its address as machine.address or --address."
            ) from error
    alive = [
        HostNode(row["NodeID"], str(row["NodeManagerAddress"]), max(1, int(row["Resources"].get("CPU", 1))))
        for row in ray.nodes()
        if row["Alive"]
    ]
    if nodes is not None and len(alive) < nodes:
        raise ClusterError(
            f"The cluster at {address!r} has {len(alive)} node(s), and {nodes} are wanted (machine.nodes). Join one by "
            "`agentgym cluster up --join ADDRESS` on its host, or ask for fewer."
        )
    return alive


def reachable(address: str) -> str:
    """Return the address, which something answers at; of `auto`, the one of this host. Ray itself would try for
    minutes.

    Raises: OSError, ValueError.
    """
    if address == "auto":
        try:
            address = os.environ.get("RAY_ADDRESS") or _CURRENT_CLUSTER.read_text().strip()
        except OSError as error:
            raise ConnectionError("no Ray runs on this host") from error
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), CONNECT_S).close()
    return address


async def probe_nodes(nodes: Sequence[HostNode], workers: Mapping[str, Any], backend: str | None) -> list[HostNode]:
    """Ask the worker of each node what it is, and whether sandboxes can be made there.

    Returns: the nodes that can be used; one that turns out to be dead is left out.
    Raises: ClusterError naming every node that is alive and cannot be used, and why.
    """
    reports = await report_of(nodes, workers, backend)
    dead = await _dead_of({node for node, answer, _ in reports if "broken" in answer})
    if alive := [f"{node.name}: {fault}" for node, _, fault in reports if fault and node not in dead]:
        raise ClusterError("These nodes cannot be used. " + " ".join(alive))
    return [node for node in nodes if node not in dead]


async def report_of(
    nodes: Sequence[HostNode], workers: Mapping[str, Any], backend: str | None
) -> list[tuple[HostNode, dict[str, Any], str]]:
    """Return what the worker of each node answers (`EpisodeWorker.probe`), and why the node cannot be used, if it
    cannot.
    """
    answers = await asyncio.gather(*(_probe(workers[node.id], backend) for node in nodes))
    return [(node, answer, _fault(answer)) for node, answer in zip(nodes, answers, strict=True)]


async def _dead_of(nodes: set[HostNode]) -> set[HostNode]:
    """Those nodes that are dead, once Ray knows it."""
    ray, pause_s = import_ray(), 0.5
    for _ in range(int(NOTICE_S / pause_s)):
        alive = {row["NodeID"] for row in ray.nodes() if row["Alive"]}
        if all(node.id not in alive for node in nodes):
            return nodes
        await asyncio.sleep(pause_s)
    return {node for node in nodes if node.id not in alive}


async def _probe(worker: Any, backend: str | None) -> dict[str, Any]:
    try:
        async with asyncio.timeout(PROBE_S):
            answer: dict[str, Any] = await worker.probe.remote(backend)
            return answer
    except TimeoutError:
        return {"broken": f"no worker answered within {PROBE_S:g} s"}
    except Exception as error:  # noqa: BLE001  whatever it is, the node is of no use
        lines = [line for line in str(error).strip().splitlines() if line.strip()]
        return {"broken": f"its worker failed: {type(error).__name__}: {lines[-1] if lines else ''}"}


def _fault(answer: Mapping[str, Any]) -> str:
    """Why a node cannot be used; nothing if it can."""
    if "broken" in answer:
        return f"{answer['broken']}."
    if answer["nice"] > max(0, os.nice(0)):  # who runs everything at a low priority may
        return (
            f"its workers run at nice {answer['nice']}, which starves sandboxes. Start Ray there by `agentgym cluster "
            f"up`, or with {NICE_VARIABLE}=0 in its environment, from a shell of normal priority."
        )
    return fault_of(answer)
