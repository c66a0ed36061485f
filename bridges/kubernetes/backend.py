"""The kubernetes backend: sandboxes in pods that kubernetes-sigs/agent-sandbox gives out from a warm pool.

    driver ──claim──> API server ──> controller ──> pod of the pool
           ──calls, by exec or to a port─────────> pod: SandboxHost ──> its backend ──> sandboxes

A pod is only the place where sandboxes are made: the backend in it determines their limits, network and isolation. A
pod holds several sandboxes, is claimed when the earlier pods are full, and is released when the backend is closed.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from datetime import UTC, datetime
from typing import Any

from agentgym import MissingExtraError, SandboxDied, SandboxUnavailable, load
from agentgym.cluster import hosts
from agentgym.sandbox import Running
from agentgym.text import counted

from .api import KubernetesApi
from .pod import END_S, LABELS, Pod
from .streams import HostStream, open_stream

CLAIM_LEASE_S = 300.0
"""How long a pod outlives its driver."""
READY_S = 180.0
PROBE_S = 120.0
"""How long the host in a pod may take to start and to probe a sandbox."""
ROOM_S = 600.0
"""How long a sandbox may wait until another is closed."""
_LOOK_S = 0.05
_REMEDY = (
    " In a pod the backend namespaces takes what examples/cluster/agent-sandbox.yaml gives the container of its "
    "SandboxTemplate: privileged: true, with hostUsers: false so that its root is nobody on the node. Where that is "
    'forbidden, use agent-sandbox-direct.yaml and KubernetesBackend(backend="landlock").'
)


class KubernetesBackend(hosts.HostedBackend):
    """Creates sandboxes in pods of a warm pool (SandboxWarmPool of extensions.agents.x-k8s.io/v1beta1).

    Args:
        pool: name of the warm pool. Its pods' image must have this version of agentgym.
        namespace: the pool's namespace; None for the context's.
        context: a context of the kubeconfig in KUBECONFIG; None for the current one, or in a pod for its account.
        pods: the largest number of pods to claim; None for as many as the pool keeps ready.
        per_pod: the largest number of sandboxes per pod. The pod's memory and CPU limits must suffice for them.
        backend: registered name of the backend in the pods. By default it is what a pod's listener names, and
            `namespaces` in pods that are called by exec.
        python: the Python command in the pods.
        lease_s: how long sandboxes outlive the last heartbeat of this process, in seconds.
        claim_lease_s: how long pods outlive this process, in seconds. The clocks of this host and of the cluster must
            differ by less than this.
        ready_s, room_s: how long to wait for a pod to be ready, and for room in one, in seconds.
    Raises: UnknownNameError if nothing is registered as the backend; ValueError for a number below 1.
    """

    name = "kubernetes"

    def __init__(
        self,
        pool: str = "agentgym",
        *,
        namespace: str | None = None,
        context: str | None = None,
        pods: int | None = None,
        per_pod: int = 16,
        backend: str | None = None,
        python: str = "python3",
        lease_s: float = hosts.LEASE_S,
        claim_lease_s: float = CLAIM_LEASE_S,
        ready_s: float = READY_S,
        room_s: float = ROOM_S,
    ) -> None:
        super().__init__()
        if backend is not None:
            load("backends", backend)
        for option, number in (("pods", pods), ("per_pod", per_pod)):
            if number is not None and number < 1:
                raise ValueError(f"KubernetesBackend({option}={number}) is not valid: give at least 1.")
        self._pool, self._most_pods, self._per_pod, self._backend = pool, pods, per_pod, backend
        self._python, self._lease_s = python, lease_s
        self._claim_lease_s, self._ready_s, self._room_s = claim_lease_s, ready_s, room_s
        self._api = KubernetesApi(context, namespace)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pods_allowed = pods or 1
        self._claiming: list[Future[hosts.SandboxHostLink]] = []
        self._waiting = 0

    async def _ready(self) -> list[hosts.SandboxHostLink]:
        """Check that pods can be claimed. Raises: SandboxUnavailable."""
        return self._alive or [await self._choose()]

    async def _choose(self) -> hosts.SandboxHostLink:
        """Choose a pod with room, claiming one if necessary."""
        ends = time.monotonic() + self._room_s
        self._waiting += 1
        try:
            while (link := self._with_room()) is None:
                claim = self._claim_in_progress()
                if claim is None and time.monotonic() > ends:
                    raise SandboxUnavailable(
                        f"No sandbox could be created: for {self._room_s:g} s, {counted(self._pods_allowed, 'pod')} of "
                        f"the warm pool {self._pool!r} already had {self._per_pod} sandboxes each. Play fewer "
                        "episodes at once, or enlarge the pool."
                    )
                await asyncio.sleep(_LOOK_S)
                if claim is not None and claim.done():
                    claim.result()
            return link
        except CancelledError as error:
            raise SandboxUnavailable("The kubernetes backend was closed while it created a sandbox.") from error
        except (hosts.ClusterError, MissingExtraError, SandboxDied) as error:
            raise SandboxUnavailable(f"No sandbox can be created in a pod: {error}") from error
        finally:
            self._waiting -= 1

    def _with_room(self) -> hosts.SandboxHostLink | None:
        roomy = [link for link in self._alive if link.sandboxes < self._per_pod]
        return min(roomy, key=lambda link: link.load) if roomy else None

    def _claim_in_progress(self) -> Future[hosts.SandboxHostLink] | None:
        """Return a pending claim, a new one if waiters need more pods; None if no more claims may be made."""
        with self._lock:
            self._claiming = [claim for claim in self._claiming if not claim.done()]
            have = len(self._claiming)
            if len(self._alive) + have < self._pods_allowed and self._waiting > have * self._per_pod:
                self._claiming.append(self._run(self._claim_pod()))
            return self._claiming[-1] if self._claiming else None

    async def _claim_pod(self) -> hosts.SandboxHostLink:
        """Claim a pod and return its probed host. Raises: ClusterError, MissingExtraError, SandboxDied."""
        await self._connect()
        pool = await self._api.read("sandboxwarmpools", self._pool)
        self._pods_allowed = self._most_pods or max(1, int(pool["spec"].get("replicas", 1)))
        pod = Pod(self._api, asyncio.get_running_loop(), self._claim_lease_s)
        await pod.start(self._pool, self._stream_to, self._ready_s)
        link = pod.link = hosts.SandboxHostLink(hosts.HostNode(pod.claim, f"{self._api.namespace}/{pod.name}", 1), pod)
        self._host_watch.watch(link)
        try:
            async with asyncio.timeout(PROBE_S):
                fault = hosts.fault_of(await link.ask("probe", self._backend or ""))
            if fault:
                remedy = _REMEDY if "sandboxes cannot" in fault else ""
                raise hosts.ClusterError(f"The pod {link.node.name} cannot be used: {fault}{remedy}")
        except (TimeoutError, KeyError, TypeError) as error:  # a pod may send any answer, or none at all
            link.lose(error)
            raise hosts.ClusterError(
                f"The sandbox host in {link.node.name} did not describe itself as expected ({error!r}). Its image may "
                "have another version of agentgym."
            ) from error
        except BaseException as error:
            link.lose(error)
            raise
        finally:
            await link.ended()
        self._links[pod.claim] = link
        return link

    async def _stream_to(self, pod: str) -> HostStream:
        return await open_stream(self._api, pod, self._python, self._backend, self._lease_s)

    async def running(self) -> list[Running]:
        """Return the sandboxes of this process, and the pods claimed by other processes, one row each."""
        own = await super().running() if self._alive else []
        rows = [row for row in await self._claims() if row.id not in self._links]
        return own + rows

    async def clean(self) -> list[str]:
        """Release pods whose process has ended, or which outlived their time to live."""
        orphans = [row for row in await self._claims() if row.orphaned]
        for row in orphans:
            await self._answer_to(self._api.delete_claim(row.id))
        return [f"the claim {row.id} of the warm pool {row.image!r}" for row in orphans]

    async def close(self) -> None:
        """Close all sandboxes and release the pods."""
        for claim in self._claiming:
            claim.cancel()
        await super().close()
        if self._loop is not None:
            await asyncio.wrap_future(self._run(self._wind_up()))
            self._loop.call_soon_threadsafe(self._loop.stop)
            assert self._thread is not None
            await asyncio.to_thread(self._thread.join)
            self._loop.close()
            self._loop = self._thread = None

    async def _wind_up(self) -> None:
        """Wait for the release of abandoned claims, and close the connections."""
        if rest := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(rest, timeout=END_S)
        await self._api.close()

    async def _claims(self) -> list[Running]:
        return [_row_of(claim) for claim in await self._answer_to(self._listed())]

    async def _listed(self) -> list[dict[str, Any]]:
        await self._connect()
        return await self._api.claims(",".join(f"{name}={value}" for name, value in LABELS.items()))

    async def _answer_to(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await asyncio.wrap_future(self._run(work))
        except (hosts.ClusterError, MissingExtraError) as error:
            raise SandboxUnavailable(f"The Kubernetes cluster cannot be reached: {error}") from error

    async def _connect(self) -> None:
        if not self._api.host:
            await self._api.connect()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        """Start work on this backend's event loop, which outlives its callers' loops."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._loop.run_forever, name="agentgym-kubernetes", daemon=True)
            self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)


def _row_of(claim: Mapping[str, Any]) -> Running:
    """Return a claim as a row of `running`. Its process is known only if it is or was on this host."""
    names, spec = claim["metadata"], claim["spec"]
    owner = hosts.Owner.from_labels(names.get("annotations") or {})
    now = datetime.now(UTC)
    has_expired = now > datetime.fromisoformat(spec["lifecycle"]["shutdownTime"])
    age_s = (now - datetime.fromisoformat(names["creationTimestamp"])).total_seconds()
    is_alive = owner is not None and owner.alive
    return Running(
        id=str(names["name"]),
        backend=KubernetesBackend.name,
        image=str(spec["warmPoolRef"]["name"]),
        owner=owner.pid if owner is not None and is_alive else 0,
        orphaned=has_expired or (owner is not None and not is_alive),
        age_s=age_s,
    )
