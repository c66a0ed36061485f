"""The workers of one run on several nodes: who has joined, and which of them gets the next episode."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from agentgym.cluster.backoff import Backoff
from agentgym.cluster.relay import Event
from agentgym.errors import ClusterError, NodeLost
from agentgym.text import counted

MAX_FAILURES = 3
"""A node with this many failed episodes in a row pauses while another node is left. Failures are quick, so a node with
a full disk would otherwise always have the lowest load."""
PAUSE_S, LONGEST_PAUSE_S = 30.0, 600.0
"""The first and the longest pause of such a node."""
WAIT_FOR_NODES_S = 300.0
"""How long a run waits for a node when it has none."""
JOIN_S = 0.5
"""The interval of looks for workers that can join."""
END_S = 30.0
"""How long workers may take to close a run's open episodes."""
_LOGGER = logging.getLogger(__name__)


class WorkerLink(Protocol):
    """The connection of one run to the EpisodeWorker of one node.

    Attributes:
        name: the name of the node, for messages.
        cpus: the node's CPUs: it gets episodes in proportion.
    """

    name: str
    cpus: int

    async def begin(self) -> set[str]:
        """Begin the run. Returns: ids of its ledger's episodes that ended on the node while their driver was away."""
        ...

    async def deliver(self, items: list[Event]) -> None: ...

    async def collect(self) -> list[Event]:
        """Return the worker's events. Raises: any error, if the worker is gone or does not answer in time."""
        ...

    async def end(self) -> None: ...

    def give_up(self, reason: str) -> None:
        """End the worker if it still runs."""
        ...


class Worker:
    """The driver's record of one worker: its episodes, and the items to send next."""

    def __init__(self, link: WorkerLink, lose: Callable[[Worker, Exception], None]) -> None:
        self.link, self._lose = link, lose
        self.episodes = 0
        self.failures = Backoff(PAUSE_S, LONGEST_PAUSE_S, free=MAX_FAILURES - 1)
        self.is_lost = False
        self._outbox: list[Event] = []
        self._sending: asyncio.Task[None] | None = None

    @property
    def load(self) -> float:
        return self.episodes / self.link.cpus

    @property
    def pauses(self) -> bool:
        """Whether its episodes have failed too often to send more at present."""
        return asyncio.get_running_loop().time() < self.failures.until

    def note_failure(self, failure: Exception | None) -> None:
        """Count how an episode ended: by a failure of the node, or otherwise (None)."""
        if failure is None:
            return self.failures.succeed()
        did_pause, now = self.pauses, asyncio.get_running_loop().time()
        self.failures.fail(now)
        if self.pauses and not did_pause:
            _LOGGER.warning(
                "%s in a row failed on the node %s (%s). It gets no more for %.0f s while another node is left.",
                *(counted(self.failures.failures, "episode"), self.link.name, failure, self.failures.until - now),
            )

    def send(self, item: Event) -> None:
        """Send an item, batched with all others from this pass of the event loop."""
        self._outbox.append(item)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.ensure_future(self._deliver())

    async def end(self) -> None:
        """Send what is left, above all the "recorded" items, and end the run on the worker."""
        if self._sending is not None:
            await asyncio.wait({self._sending})
        await self.link.end()

    async def _deliver(self) -> None:
        while self._outbox and not self.is_lost:
            items, self._outbox = self._outbox, []
            try:
                await self.link.deliver(items)
            except Exception as error:  # noqa: BLE001  the items may have been executed, so they are not sent again
                self._lose(self, error)


class SessionWorkers:
    """The workers of one run. They join when they are ready, and leave when they are lost.

    Args:
        ready: returns the links of all workers that run now: for the same worker, the same link.
        on_join: called with each worker that has begun the run.
        on_loss: called with each worker that is gone, and the reason.
        wait_s: how long `choose` waits for a worker when there is none.
    """

    def __init__(
        self,
        ready: Callable[[], Sequence[WorkerLink]],
        on_join: Callable[[Worker], None],
        on_loss: Callable[[Worker, str], None],
        wait_s: float,
    ) -> None:
        self._ready, self._on_join, self._on_loss, self._wait_s = ready, on_join, on_loss, wait_s
        self.alive: list[Worker] = []
        self._begun: set[WorkerLink] = set()
        self._spooled: dict[str, Worker] = {}
        self._reasons: dict[str, str] = {}  # the last loss of each node
        self._empty_since = asyncio.get_running_loop().time()
        self._has_told = False
        self._joined = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Begin the run on the workers that are ready; later ones join by themselves.

        Raises: ClusterError if a worker refuses the run.
        """
        links = self._new()
        for link, failure in zip(
            links, await asyncio.gather(*map(self._begin, links), return_exceptions=True), strict=True
        ):
            if isinstance(failure, NodeLost):
                self._give_up(link, failure)
            elif failure is not None:
                raise ClusterError(f"A worker of the cluster cannot start the run: {failure}") from failure
        self._start(self._keep_joining())

    async def choose(self, episode: str, *, avoid: Worker | None = None) -> Worker:
        """Return the worker that has stored an episode's end; if none has, the healthy one with the lowest load.

        Args:
            avoid: a worker to avoid if there is another.
        Raises: ClusterError if it waits for a worker for too long.
        """
        while not self.alive:
            await self._wait_for_one()
        keeper = self._spooled.pop(episode, None)
        if keeper is not None and not keeper.is_lost:
            return keeper
        return min(self.alive, key=lambda worker: (worker is avoid, worker.pauses, worker.load))

    def lose(self, worker: Worker, error: Exception) -> None:
        """Abandon a worker."""
        if worker.is_lost:
            return
        worker.is_lost = True
        self.alive.remove(worker)
        if not self.alive:
            self._joined.clear()
            self._empty_since, self._has_told = asyncio.get_running_loop().time(), False
        self._on_loss(worker, self._give_up(worker.link, error))

    async def close(self) -> None:
        """End the run on all workers, and wait until they have closed its episodes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(END_S):
                await asyncio.gather(*(worker.end() for worker in self.alive), return_exceptions=True)
        except TimeoutError:
            for worker in self.alive:
                worker.link.give_up(f"it did not end its episodes within {END_S:g} s")

    async def _wait_for_one(self) -> None:
        reasons = " ".join([*self._reasons.values()][-3:])
        gone = f"No node of the cluster is left to play on{f': {reasons}' if reasons else '.'}"
        if not self._has_told and self._wait_s > 0:
            self._has_told = True
            _LOGGER.warning("%s The run waits up to %g s for one (machine.wait_for_nodes_s).", gone, self._wait_s)
        try:
            async with asyncio.timeout_at(self._empty_since + self._wait_s):
                await self._joined.wait()
        except TimeoutError as error:
            raise ClusterError(
                f"{gone} None came within {self._wait_s:g} s (machine.wait_for_nodes_s). See which nodes are up by "
                "`agentgym cluster status`, add one by `agentgym cluster up --join HOST:PORT`, and run the command "
                "again (of a training with --resume)."
            ) from error

    def _new(self) -> list[WorkerLink]:
        """Return the ready links that have not begun the run; they count as begun from now on."""
        links = self._ready()
        new = [link for link in links if link not in self._begun]
        self._begun = {*links}
        return new

    async def _keep_joining(self) -> None:
        while True:
            for link in self._new():
                self._start(self._join(link))
            await asyncio.sleep(JOIN_S)

    async def _join(self, link: WorkerLink) -> None:
        try:
            await self._begin(link)
        except Exception as error:  # noqa: BLE001  a worker that cannot begin is replaced by another one
            self._give_up(link, error)

    async def _begin(self, link: WorkerLink) -> None:
        spooled = await link.begin()
        worker = Worker(link, self.lose)
        self.alive.append(worker)
        self._spooled |= dict.fromkeys(spooled, worker)
        self._on_join(worker)
        self._joined.set()

    def _give_up(self, link: WorkerLink, error: Exception) -> str:
        """End a worker. Returns: the reason, as a sentence."""
        detail = str(error).strip().partition("\n")[0][:200]
        if isinstance(error, NodeLost):
            reason = detail
        else:
            reason = f"The worker on {link.name} is gone ({type(error).__name__}{detail and f': {detail}'})."
        self._reasons.pop(link.name, None)
        self._reasons[link.name] = reason
        link.give_up(reason)
        return reason

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
