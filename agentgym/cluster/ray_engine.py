"""RayEngine: plays episodes on the nodes of a Ray cluster, with one EpisodeWorker per node next to its sandboxes."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from agentgym import registry
from agentgym.cluster.call_frames import Pickled
from agentgym.cluster.cluster_session import ClusterSession
from agentgym.cluster.driver_load import DriverLoad
from agentgym.cluster.episode_spool import folder_of_user
from agentgym.cluster.episode_worker import EpisodeWorker, SessionSpec
from agentgym.cluster.host_link import SILENCE_S, HostLink, HostNode
from agentgym.cluster.host_pool import HostPool
from agentgym.cluster.ray_host import HEARTBEATS, CalledDirectly, RayHost, check, start_actor
from agentgym.cluster.ray_nodes import SLOWEST_S, connect, facts_of, fault_in, import_ray, live_nodes
from agentgym.cluster.relay import Event
from agentgym.cluster.session_workers import WAIT_FOR_NODES_S
from agentgym.cluster.user_modules import user_code_by_value
from agentgym.errors import ClusterError, SandboxError
from agentgym.policy.account import open_account
from agentgym.policy.contract import Policy
from agentgym.rollout.engine import EpisodePlayer
from agentgym.rollout.episode import EpisodeFactory
from agentgym.sandbox import Backend
from agentgym.sandbox.limits import ACCEPT_WEAKER, SandboxSpec

_LOGGER = logging.getLogger(__name__)
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
        self._heard_at = time.monotonic() + SLOWEST_S  # heartbeats begin once the driver has probed the node
        self._loop: asyncio.AbstractEventLoop | None = None
        threading.Thread(target=self._watch, name="agentgym-lease", daemon=True).start()

    async def probe(self, backend: str | None = None) -> dict[str, Any]:
        """Return the facts that the driver checks before using a node."""
        self._loop = asyncio.get_running_loop()
        facts = await super().probe(backend)
        self.beat()
        return facts

    async def begin(self, session: str, spec: SessionSpec) -> tuple[set[str], str]:
        self.beat()
        return await super().begin(session, spec)

    async def heard(self) -> None:
        while time.monotonic() - self._heard_at > HEARD_S:  # noqa: ASYNC110  beats come on another thread
            await asyncio.sleep(HEARD_S / 30)

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


HEARD_S = SILENCE_S - 1.0
"""A driver that was silent for this long may soon give the worker up: its copy of the policy waits."""
LEASE_S = 30.0
"""How long workers outlive the last heartbeat of their driver."""


class RayEngine:
    """Plays episodes on a Ray cluster. The policy, the ledger and the groups stay in this process.

    Args:
        address: the address of the cluster, host:port; `auto` is the cluster of this host.
        nodes: the minimum number of nodes at the start; None for any number.
        backend: sandboxes of this backend must work on every node, which is checked at the start.
        silence_s: a worker that answers no heartbeat for this long is abandoned.
        lease_s: how long the workers outlive the last heartbeat of this process. Episodes that end meanwhile are
            stored on their disks, for a process that resumes with the same ledger.
        wait_for_nodes_s: how long a run without a node waits for one, in seconds.
    Raises: ClusterError for a negative time.
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
        wait_for_nodes_s: float = WAIT_FOR_NODES_S,
    ) -> None:
        if not wait_for_nodes_s >= 0:
            raise ClusterError(f"wait_for_nodes_s is {wait_for_nodes_s:g}, but a run cannot wait less than 0 s.")
        self.address, self.nodes, self.backend = address, nodes, backend
        self.wait_for_nodes_s, self._lease_s = wait_for_nodes_s, lease_s
        self._pool = HostPool(live_nodes, self._start, partial(check, backend=backend), silence_s)
        self._sessions = itertools.count()
        self._players: set[ClusterSession] = set()
        self._load = DriverLoad()

    @asynccontextmanager
    async def session(self, episodes: EpisodeFactory) -> AsyncIterator[EpisodePlayer]:
        """Play the episodes of one run on the nodes. Raises on entry: ClusterError, MissingExtraError."""
        ray = import_ray()
        await self._open()
        session = f"{os.getpid()}-{next(self._sessions)}"
        with user_code_by_value(ray.cloudpickle):
            spec = Pickled(ray.cloudpickle.dumps(spec_of(episodes)))
        links: dict[HostLink, RunLink] = {}

        def ready() -> list[RunLink]:
            nonlocal links
            links = {worker: links.get(worker) or RunLink(worker, session, spec) for worker in self._pool.alive}
            return [*links.values()]

        player = ClusterSession(episodes, ready, self.wait_for_nodes_s)
        self._players.add(player)
        async with self._load.measured():
            try:
                await player.open()
                yield player
            finally:
                self._players.discard(player)
                await player.close()

    async def check(self, specs: Sequence[SandboxSpec], backend: str | Backend) -> None:
        """Start the workers, and open a sandbox for each spec on their nodes.

        Raises: LimitUnenforceable, SandboxUnavailable, with the names of the nodes; ClusterError, MissingExtraError.
        """
        await self._open()
        pickler = import_ray().cloudpickle
        with user_code_by_value(pickler):
            arguments = [Pickled(pickler.dumps(it)) for it in (specs, backend, registry.registrations())]
        workers = self._pool.alive
        answers = await asyncio.gather(*(it.ask("check", *arguments) for it in workers), return_exceptions=True)
        refusals: dict[str, list[str]] = {}
        for worker, answer in zip(workers, answers, strict=True):
            if isinstance(answer, SandboxError):  # any other error ends the worker, and the run replaces it
                refusals.setdefault(str(answer), []).append(worker.node.name)
        if refusals:
            await self.close()
            kind = next(type(answer) for answer in answers if isinstance(answer, SandboxError))
            raise kind("\n".join(f"On {', '.join(nodes)}: {text}" for text, nodes in refusals.items()))

    async def _open(self) -> None:
        connect(self.address, None if self._pool.is_open else self.nodes)  # later runs may have fewer nodes
        await self._pool.open()

    def connect(self) -> None:
        """Connect to the cluster. Raises: ClusterError, MissingExtraError."""
        connect(self.address, self.nodes)

    @property
    def lost(self) -> list[str]:
        """Why each worker that is gone was abandoned."""
        return self._pool.lost

    def report(self) -> Mapping[str, float]:
        """Return the state of the cluster: `nodes` that play now, `lost` workers so far, `episodes` being played.

        `driver/busy` is the share of the last minute of play in which this process's event loop computed.
        """
        episodes = sum(player.playing for player in [*self._players])
        state = {"nodes": len(self._pool.alive), "lost": len(self._pool.lost), "episodes": episodes}
        return {**state, "driver/busy": self._load.busy}

    async def probe(self) -> list[tuple[HostNode, dict[str, Any], str]]:
        """Return each node's facts, and why it cannot be used (empty if it can). End the workers afterwards.

        Raises: ClusterError if there is no cluster, MissingExtraError.
        """
        nodes = connect(self.address, self.nodes)
        actors = [self._start_actor(node) for node in nodes]
        try:
            answers = await asyncio.gather(*(facts_of(actor, self.backend) for actor in actors))
            return [(node, answer, fault_in(answer)) for node, answer in zip(nodes, answers, strict=True)]
        finally:
            hosts = [HostLink(node, RayHost(actor, node.name)) for node, actor in zip(nodes, actors, strict=True)]
            await self._pool.end(hosts)

    async def close(self) -> None:
        """End the workers and the sandboxes of their backends. Ray itself keeps running."""
        await self._pool.close()

    def _start(self, node: HostNode) -> HostLink:
        return HostLink(node, RayHost(self._start_actor(node), node.name))

    def _start_actor(self, node: HostNode) -> Any:
        accepted = os.environ.get(ACCEPT_WEAKER, "")
        return start_actor(LeasedWorker, node, self._lease_s, accepted, groups={HEARTBEATS: 2}, outlives_driver=True)


class RunLink:
    """One run's connection to the worker of one node. Calls that may have run are never sent again."""

    def __init__(self, worker: HostLink, session: str, spec: Pickled) -> None:
        self._worker, self._session, self._spec = worker, session, spec
        self.name, self.cpus = worker.node.name, worker.node.cpus

    async def begin(self) -> set[str]:
        spooled: set[str]
        spooled, reason = await self._worker.ask("begin", self._session, self._spec)
        if reason and not self._worker.has_told_relay:
            self._worker.has_told_relay = True
            _LOGGER.warning(
                "%s cannot ask the policy's server itself: %s. It asks through this process, which can answer far "
                "fewer requests. Give an address and variables that work on every node.",
                *(self.name, reason),
            )
        return spooled

    async def deliver(self, items: list[Event]) -> None:
        await self._worker.ask("deliver", self._session, items)

    async def collect(self) -> list[Event]:
        events: list[Event] = await self._worker.ask("collect", self._session)
        return events

    async def end(self) -> None:
        await self._worker.ask("end", self._session)

    def give_up(self, reason: str) -> None:
        self._worker.lose(f"a run gave it up: {reason}")


@cache
def shared_engine(
    address: str = "auto",
    nodes: int | None = None,
    backend: str | None = None,
    wait_for_nodes_s: float = WAIT_FOR_NODES_S,
) -> RayEngine:
    """Return the one engine that this process uses for a cluster. It connects when the first episodes are played."""
    return RayEngine(address, nodes=nodes, backend=backend, wait_for_nodes_s=wait_for_nodes_s)


def spec_of(episodes: EpisodeFactory) -> SessionSpec:
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
        copier=policy.copier() if isinstance(policy, Policy) else None,
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
