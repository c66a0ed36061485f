"""Two workers in this process, linked as the nodes of a cluster are."""

from __future__ import annotations

import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

from agentgym import Call, Message, Task
from agentgym.cluster.cluster_session import ClusterSession
from agentgym.cluster.episode_worker import EpisodeWorker, SessionSpec
from agentgym.cluster.ray_engine import spec_of

ADD, SUBMIT = Call("add", {"amount": 1}), Call("submit", {})


SCRIPT = [Message("assistant", "", (call,)) for call in (ADD, ADD, SUBMIT)]
TASKS = [Task(f"t{n}", "x/counter-v1", "Count.", truth="2") for n in range(8)]
NODE: ContextVar[str] = ContextVar("node")


class Link:
    """The way to a worker in this process. What passes is pickled, as between processes."""

    def __init__(self, name: str, worker: EpisodeWorker) -> None:
        self.name, self.cpus, self.worker = name, 1, worker
        self.lost = ""
        self.spec: SessionSpec | None = None
        self.dies_after: int | None = None
        self.answers_left = 0
        self.began = 0
        self.given_up = False

    def _check(self) -> None:
        if self.dies_after is not None and self.began >= self.dies_after:
            self.answers_left -= 1
            self.given_up |= self.answers_left < 0
        if self.given_up:
            raise ConnectionError("the node is gone")

    async def begin(self):
        self._check()
        spooled, self.relays = await self.worker.begin("s", self.spec)
        return spooled

    async def deliver(self, items):
        self._check()
        NODE.set(self.name)  # inherited by the episodes that begin
        self.began += sum(item[0] == "start" for item in items)
        await self.worker.deliver("s", pickle.loads(pickle.dumps(items)))

    async def collect(self):
        events = await self.worker.collect("s")
        self._check()  # what it has sent meanwhile is lost, as on a network
        return pickle.loads(pickle.dumps(events))

    async def end(self):
        await self.worker.end("s")

    def give_up(self, reason):
        self.given_up, self.lost = True, reason


class TwoWorkers:
    """An engine whose nodes are in this process.

    Attributes:
        links: the workers that are or were there; those that are lost are not ready.
    """

    name = "two workers"

    def __init__(self, names: str = "ab", folder: Path | None = None, *, wait_s: float = 300.0) -> None:
        self.links = [Link(name, EpisodeWorker(folder)) for name in names]
        self.wait_s = wait_s

    @property
    def lost(self) -> list[str]:
        return [link.lost for link in self.links if link.lost]

    def ready(self) -> list[Link]:
        for link in self.links:
            link.spec = link.spec or self._spec
        return [link for link in self.links if not link.lost]

    @asynccontextmanager
    async def session(self, episodes) -> AsyncIterator[ClusterSession]:
        self._spec = replace(spec_of(episodes), registered={})
        player = ClusterSession(episodes, self.ready, self.wait_s)
        try:
            await player.open()
            yield player
        finally:
            await player.close()
            for link in self.links:
                await link.worker.end("s")


def plain(trajectory):
    """What must not depend on where an episode was played."""
    turns = [
        (t.message, [(r.content, r.status) for r in t.results], t.rewards, t.state_key, t.token_ids, t.observation_ids)
        for t in trajectory.turns
    ]
    return trajectory.id, trajectory.prompt_ids, turns, trajectory.outcome, trajectory.stop_reason, trajectory.error
