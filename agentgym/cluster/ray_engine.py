"""RayEngine: plays episodes on the nodes of a Ray cluster, one EpisodeWorker on each, beside their sandboxes."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

from agentgym import registry
from agentgym.cluster.cluster_session import ClusterSession, WorkerLink
from agentgym.cluster.episode_worker import EpisodeWorker, SessionSpec
from agentgym.cluster.ray_activity import worker_name
from agentgym.cluster.ray_nodes import NAMESPACE, RayNode, connect, import_ray, probe_nodes, report_of
from agentgym.cluster.relay import Event
from agentgym.cluster.user_modules import user_code_by_value
from agentgym.errors import ClusterError
from agentgym.rollout.engine import EpisodePlayer
from agentgym.rollout.jobs import EpisodeFactory

if TYPE_CHECKING:
    from agentgym.policy import Policy

SILENCE_S = 30.0
"""A worker that has sent nothing for so long is given up. The death of a node shows sooner, by an error of Ray."""


class RayEngine:
    """Plays episodes on a Ray cluster. The policy, the ledger and the groups stay in this process.

    Args:
        address: of the cluster, host:port; `auto` is the one that runs on this host.
        nodes: how many there must be at least at the start; None for any number.
        backend: sandboxes of this backend must work on every node, which is tried at the start.
        silence_s: how long a worker may be silent before it is given up.
    """

    name = "ray"

    def __init__(
        self,
        address: str = "auto",
        *,
        nodes: int | None = None,
        backend: str | None = None,
        silence_s: float = SILENCE_S,
    ) -> None:
        self.address, self.nodes, self.backend, self._silence_s = address, nodes, backend, silence_s
        self._workers: dict[str, Any] = {}  # actors by node id
        self._sessions = itertools.count()
        self._is_connected = False
        self._players: set[ClusterSession] = set()
        self.lost: list[str] = []

    @asynccontextmanager
    async def session(self, episodes: EpisodeFactory) -> AsyncIterator[EpisodePlayer]:
        """As Engine. Raises, when it is entered: ClusterError, MissingExtraError."""
        ray = import_ray()
        nodes = await self._ready_nodes()
        session = f"{os.getpid()}-{next(self._sessions)}"
        with user_code_by_value(ray.cloudpickle):
            spec = ray.put(_spec_of(episodes))
        links = [_RayLink(self, node, self._workers[node.id], session, self._silence_s) for node in nodes]
        try:
            await asyncio.gather(*(link.begin(spec) for link in links))
        except ray.exceptions.RayError as error:
            raise ClusterError(f"A worker cannot begin the run: {error}") from error
        player = ClusterSession(episodes, links, self._forget)
        self._players.add(player)
        try:
            yield player
        finally:
            self._players.discard(player)
            await player.close()

    def report(self) -> Mapping[str, float]:
        """As ReportingEngine."""
        episodes = sum(player.playing for player in [*self._players])
        return {"nodes": len(self._workers), "lost": len(self.lost), "episodes": episodes}

    async def probe(self) -> list[tuple[RayNode, dict[str, Any], str]]:
        """What each node says of itself, and why it cannot be used, if it cannot. The workers end afterwards.

        Raises: ClusterError if there is no cluster, MissingExtraError.
        """
        nodes = connect(self.address, self.nodes)
        self._workers = {node.id: start_actor(EpisodeWorker, node) for node in nodes}
        try:
            return await report_of(nodes, self._workers, self.backend)
        finally:
            await self.close()

    async def close(self) -> None:
        """End the workers and the sandboxes of their backends. Ray itself keeps running."""
        ray = import_ray()
        workers, self._workers = self._workers, {}
        closing = [worker.close.remote() for worker in workers.values()]
        await asyncio.gather(*map(_awaited, closing), return_exceptions=True)
        for worker in workers.values():
            ray.kill(worker, no_restart=True)

    async def _ready_nodes(self) -> list[RayNode]:
        """The nodes that are alive, each with a worker that was checked. Raises: ClusterError."""
        nodes = connect(self.address, None if self._is_connected else self.nodes)  # a run goes on with fewer
        new = [node for node in nodes if node.id not in self._workers]
        started = {node.id: start_actor(EpisodeWorker, node) for node in new}
        self._is_connected = True
        usable = await probe_nodes(new, started, self.backend)
        self._workers |= {node.id: started[node.id] for node in usable}
        return [node for node in nodes if node.id in self._workers]

    def _forget(self, link: WorkerLink, reason: str) -> None:
        assert isinstance(link, _RayLink)
        self._workers.pop(link.node.id, None)
        self.lost.append(reason)


class _RayLink:
    """The way to the worker of one node. An error of Ray means that the call may have run: nothing is sent again."""

    def __init__(self, engine: RayEngine, node: RayNode, worker: Any, session: str, silence_s: float) -> None:
        self._engine, self.node, self._worker, self._session = engine, node, worker, session
        self._silence_s = silence_s
        self.name, self.cpus = node.name, node.cpus

    async def begin(self, spec: Any) -> None:
        await self._worker.begin.remote(self._session, spec)

    async def deliver(self, items: list[Event]) -> None:
        await self._worker.deliver.remote(self._session, items)

    async def collect(self) -> list[Event]:
        async with asyncio.timeout(self._silence_s):
            events: list[Event] = await self._worker.collect.remote(self._session)
            return events

    async def end(self) -> None:
        await self._worker.end.remote(self._session)

    def give_up(self) -> None:
        import_ray().kill(self._worker, no_restart=True)


def start_actor(cls: type, node: RayNode, *arguments: Any, groups: dict[str, int] | None = None) -> Any:
    """An actor on a node. It reserves no processor: one that did would keep the tools of its episodes waiting.

    Args:
        arguments: of the class.
        groups: threads of their own, by name, for calls that must not wait for the others.
    """
    ray = import_ray()
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return (
        ray.remote(concurrency_groups=groups or {})(cls)
        .options(
            num_cpus=0,
            max_restarts=0,
            max_task_retries=0,
            max_concurrency=1000,
            name=worker_name(node.id),
            namespace=NAMESPACE,
            scheduling_strategy=NodeAffinitySchedulingStrategy(node_id=node.id, soft=False),
        )
        .remote(*arguments)
    )


@cache
def shared_engine(address: str = "auto", nodes: int | None = None, backend: str | None = None) -> RayEngine:
    """The engine of a cluster that the whole process shares. It connects when the first episodes are played."""
    return RayEngine(address, nodes=nodes, backend=backend)


async def _awaited(reference: Any) -> Any:
    return await reference


def _spec_of(episodes: EpisodeFactory) -> SessionSpec:
    """What travels to the workers. What was registered in this process travels by value."""
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
        policy=_facts_of(policy),
        records=config.ledger is not None,
        checkpoints=tuple(config.checkpoints or ()),
        registered=registry.registrations(),
    )


def _facts_of(policy: Policy | Any) -> dict[str, Any]:
    return {
        "name": getattr(policy, "name", "policy"),
        "renderer": getattr(policy, "renderer", None),
        "version": getattr(policy, "version", 0),
        "context_tokens": getattr(policy, "context_tokens", None),
    }
