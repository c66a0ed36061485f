"""RayEngine: plays episodes on the nodes of a Ray cluster, with one EpisodeWorker per node next to its sandboxes."""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym import registry
from agentgym.cluster.call_frames import Pickled
from agentgym.cluster.cluster_session import ClusterSession, WorkerLink
from agentgym.cluster.episode_spool import folder_of_user
from agentgym.cluster.episode_worker import EpisodeWorker, SessionSpec
from agentgym.cluster.host_link import SILENCE_S, HostLink, HostNode, HostWatch
from agentgym.cluster.ray_host import HEARTBEATS, CalledDirectly, RayHost, start_actor
from agentgym.cluster.ray_nodes import PROBE_S, connect, import_ray, probe_nodes, report_of
from agentgym.cluster.relay import Event
from agentgym.cluster.user_modules import user_code_by_value
from agentgym.errors import ClusterError, NodeLost
from agentgym.policy.account import open_account
from agentgym.rollout.engine import EpisodePlayer
from agentgym.rollout.episode import EpisodeFactory
from agentgym.sandbox.limits import ACCEPT_WEAKER

if TYPE_CHECKING:
    from agentgym.policy.contract import Policy


CLOSE_S = 20.0
"""How long closing the environments of a lost driver may take."""


class LeasedWorker(CalledDirectly, EpisodeWorker):
    """Keeps playing while its driver is away: running tools finish, as do episodes that need no further reply.

    After a third of the lease without a heartbeat, episodes that have ended are stored on the disk. After the whole
    lease everything is closed, and the process exits.

    Args:
        lease_s: how long the worker outlives the last heartbeat, in seconds.
        accepted: the driver's AGENTGYM_ACCEPT_WEAKER.
    """

    def __init__(self, lease_s: float, accepted: str) -> None:
        os.environ[ACCEPT_WEAKER] = accepted
        folder: Path | None = None
        with suppress(OSError):  # without free disk space, nothing is stored
            folder = folder_of_user()
        super().__init__(folder)
        self._lease_s = lease_s
        self._heard_at = time.monotonic() + PROBE_S  # heartbeats begin once the driver has probed the node
        self._loop: asyncio.AbstractEventLoop | None = None
        threading.Thread(target=self._watch, name="agentgym-lease", daemon=True).start()

    async def probe(self, backend: str | None = None) -> dict[str, Any]:
        """Return the facts that the driver checks before using a node."""
        self._loop = asyncio.get_running_loop()
        return await super().probe(backend)

    async def begin(self, session: str, spec: SessionSpec) -> set[str]:
        """Prepare for the episodes of a run. Returns: ids of episodes of its ledger that ended here earlier."""
        self.beat()
        return await super().begin(session, spec)

    def beat(self) -> None:
        """Answer a heartbeat of the driver, and renew the lease."""
        self._heard_at = time.monotonic()

    def _watch(self) -> None:
        while (silent_s := time.monotonic() - self._heard_at) < self._lease_s:
            if silent_s > self._lease_s / 3 and self._loop is not None:
                self._loop.call_soon_threadsafe(self.keep_ends)
            time.sleep(self._lease_s / 20)
        if self._loop is not None:
            with suppress(Exception):
                asyncio.run_coroutine_threadsafe(self.close(), self._loop).result(CLOSE_S)
        os._exit(0)


LEASE_S = 30.0
"""How long workers outlive the last heartbeat of their driver."""
JOIN_S = 20.0
"""How long a run that already has nodes waits for the worker of another node."""


class RayEngine:
    """Plays episodes on a Ray cluster. The policy, the ledger and the groups stay in this process.

    Args:
        address: the address of the cluster, host:port; `auto` is the cluster of this host.
        nodes: the minimum number of nodes at the start; None for any number.
        backend: sandboxes of this backend must work on every node, which is checked at the start.
        silence_s: a worker that answers no heartbeat for this long is abandoned.
        lease_s: how long the workers outlive the last heartbeat of this process. Episodes that end meanwhile are
            stored on their disks, for a process that resumes with the same ledger.
    """

    name = "ray"

    def __init__(
        self,
        address: str = "auto",
        *,
        nodes: int | None = None,
        backend: str | None = None,
        silence_s: float = SILENCE_S,
        lease_s: float = LEASE_S,
    ) -> None:
        self.address, self.nodes, self.backend = address, nodes, backend
        self._host_watch, self._lease_s = HostWatch(silence_s), lease_s
        self._workers: dict[str, HostLink] = {}  # by node id
        self._left_out: set[str] = set()  # ids of nodes whose worker did not start in time
        self._sessions = itertools.count()
        self._is_connected = False
        self._players: set[ClusterSession] = set()
        self.lost: list[str] = []

    @asynccontextmanager
    async def session(self, episodes: EpisodeFactory) -> AsyncIterator[EpisodePlayer]:
        """Play the episodes of one run on the nodes. Raises on entry: ClusterError, MissingExtraError."""
        ray = import_ray()
        nodes = await self._ready_nodes()
        session = f"{os.getpid()}-{next(self._sessions)}"
        with user_code_by_value(ray.cloudpickle):
            spec = Pickled(ray.cloudpickle.dumps(_spec_of(episodes)))
        links = await self._begin([_RayLink(self._workers[node.id], session) for node in nodes], spec)
        player = ClusterSession(episodes, links, self._forget)
        self._players.add(player)
        try:
            yield player
        finally:
            self._players.discard(player)
            await player.close()

    def connect(self) -> None:
        """Connect to the cluster. Raises: ClusterError, MissingExtraError."""
        connect(self.address, self.nodes)

    def report(self) -> Mapping[str, float]:
        """Return the state of the cluster: `nodes` that play now, `lost` workers so far, `episodes` being played."""
        episodes = sum(player.playing for player in [*self._players])
        nodes = sum(not worker.lost for worker in [*self._workers.values()])
        return {"nodes": nodes, "lost": len(self.lost), "episodes": episodes}

    async def probe(self) -> list[tuple[HostNode, dict[str, Any], str]]:
        """Return each node's facts, and why it cannot be used (empty if it can). End the workers afterwards.

        Raises: ClusterError if there is no cluster, MissingExtraError.
        """
        nodes = connect(self.address, self.nodes)
        actors = {node.id: self._start(node) for node in nodes}
        try:
            return await report_of(nodes, actors, self.backend)
        finally:
            for node in nodes:
                self._watch(node, actors[node.id])
            await self.close()

    async def close(self) -> None:
        """End the workers and the sandboxes of their backends. Ray itself keeps running."""
        workers, self._workers = [*self._workers.values()], {}
        await asyncio.gather(*(worker.ask("close") for worker in workers), return_exceptions=True)
        await asyncio.to_thread(self._host_watch.end)
        for worker in workers:
            worker.lose("its engine was closed")
        await asyncio.gather(*(worker.ended() for worker in workers))

    async def _ready_nodes(self) -> list[HostNode]:
        """Return the live nodes that have a checked worker. Raises: ClusterError."""
        nodes = connect(self.address, None if self._is_connected else self.nodes)  # later runs may have fewer nodes
        self._is_connected = True
        self.lost += [worker.lost for worker in self._workers.values() if worker.lost]  # lost between two runs
        self._workers = {node_id: worker for node_id, worker in self._workers.items() if not worker.lost}
        if new := [node for node in nodes if node.id not in self._workers and node.id not in self._left_out]:
            await self._join(new)
        return [node for node in nodes if node.id in self._workers]

    async def _join(self, nodes: list[HostNode]) -> None:
        """Start a worker on each node. If other workers run, leave out nodes not ready after `JOIN_S` seconds."""
        actors = {node.id: self._start(node) for node in nodes}
        try:
            async with asyncio.timeout(JOIN_S if self._workers else None):
                usable = await probe_nodes(nodes, actors, self.backend)
        except TimeoutError:
            self._left_out |= actors.keys()
            for node in nodes:
                HostLink(node, RayHost(actors[node.id], node.name)).lose("its worker did not start in time")
            return
        for node in usable:
            self._watch(node, actors[node.id])

    def _start(self, node: HostNode) -> Any:
        accepted = os.environ.get(ACCEPT_WEAKER, "")
        return start_actor(LeasedWorker, node, self._lease_s, accepted, groups={HEARTBEATS: 2}, outlives_driver=True)

    def _watch(self, node: HostNode, actor: Any) -> None:
        worker = self._workers[node.id] = HostLink(node, RayHost(actor, node.name))
        self._host_watch.watch(worker)

    async def _begin(self, links: Sequence[_RayLink], spec: Pickled) -> list[_RayLink]:
        """Prepare workers for a run. Returns: links to the ready workers. Raises: ClusterError if there is none."""
        outcomes = await asyncio.gather(*(link.begin(spec) for link in links), return_exceptions=True)
        failures = [outcome for outcome in outcomes if outcome is not None]
        if failures and (len(failures) == len(links) or any(not isinstance(failure, NodeLost) for failure in failures)):
            raise ClusterError(f"A worker of the cluster cannot start the run: {failures[0]}") from failures[0]
        for link, failure in zip(links, outcomes, strict=True):
            if failure is not None:
                self._forget(link, str(failure))
        return [link for link, failure in zip(links, outcomes, strict=True) if failure is None]

    def _forget(self, link: WorkerLink, reason: str) -> None:
        assert isinstance(link, _RayLink)
        if self._workers.get(link.worker.node.id) is link.worker:  # if not, another run has reported it
            del self._workers[link.worker.node.id]
            self.lost.append(reason)


class _RayLink:
    """One run's connection to the worker of one node. Calls that may have run are never sent again."""

    def __init__(self, worker: HostLink, session: str) -> None:
        self.worker, self._session = worker, session
        self.name, self.cpus = worker.node.name, worker.node.cpus
        self.spooled: set[str] = set()

    async def begin(self, spec: Pickled) -> None:
        self.spooled = await self.worker.ask("begin", self._session, spec)

    async def deliver(self, items: list[Event]) -> None:
        await self.worker.ask("deliver", self._session, items)

    async def collect(self) -> list[Event]:
        events: list[Event] = await self.worker.ask("collect", self._session)
        return events

    async def end(self) -> None:
        await self.worker.ask("end", self._session)

    def give_up(self) -> None:
        self.worker.lose("a run gave it up")


@cache
def shared_engine(address: str = "auto", nodes: int | None = None, backend: str | None = None) -> RayEngine:
    """Return the one engine that this process uses for a cluster. It connects when the first episodes are played."""
    return RayEngine(address, nodes=nodes, backend=backend)


def _spec_of(episodes: EpisodeFactory) -> SessionSpec:
    """Return the settings to send to the workers. Parts registered in this process are sent by value."""
    config = episodes.config
    rollout = replace(config.environments.config, engine=None)
    policy = episodes.policy
    return SessionSpec(
        rollout=rollout,
        budgets=config.budgets,
        temperature=config.temperature,
        top_p=config.top_p,
        seed_parts=config.seed_parts,
        state_keys=config.state_keys,
        hooks=config.hooks,
        policy=_facts_of(policy),
        ledger=None if config.ledger is None else getattr(config.ledger, "identity", ""),
        checkpoints=tuple(config.checkpoints or ()),
        refusal=None if (account := open_account()) is None else account.refusal,
        registered=registry.registrations(),
    )


def _facts_of(policy: Policy | Any) -> dict[str, Any]:
    return {
        "name": getattr(policy, "name", "policy"),
        "renderer": getattr(policy, "renderer", None),
        "version": getattr(policy, "version", 0),
        "context_tokens": getattr(policy, "context_tokens", None),
    }
