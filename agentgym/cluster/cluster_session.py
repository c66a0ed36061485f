"""The driver's side of a run on several nodes: assigns episodes, answers policy requests, writes the ledger.

Where the policy is on a server, workers ask it themselves, by copies that follow the policy's weights.

A worker that does not answer is abandoned. Its episodes restart on other workers, and anything that it still sends is
ignored: so no episode is lost, and none is counted twice.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from agentgym.cluster.relay import Event
from agentgym.cluster.session_workers import WAIT_FOR_NODES_S, SessionWorkers, Worker, WorkerLink
from agentgym.errors import ClusterError, NodeFailed, NodeLost, PolicyError
from agentgym.messages import StopReason
from agentgym.policy.account import open_account
from agentgym.policy.contract import Policy
from agentgym.rollout.episode import EpisodeFactory
from agentgym.rollout.episodes import EpisodeJob
from agentgym.trajectory import Provenance
from agentgym.trajectory.record import Trajectory
from agentgym.trajectory.turn import Turn

WRITE_S = 0.1
"""How long a finished turn may wait for others, which are then written together. A turn that an episode waits for is
written at once."""
MAX_MOVES = 5
"""How often an episode may lose its worker before it counts as failed."""


@dataclass(eq=False, slots=True)
class RemoteEpisode:
    """An episode on a worker.

    Attributes:
        number: the number of the episode in this run.
        done: resolves to its trajectory, its checkpoints and the node's failure, if any; or raises NodeLost.
        writing: the task that writes its most recent turn into the ledger.
        events: how many events of the episode the worker has sent.
    """

    number: int
    job: EpisodeJob
    policy: Policy
    worker: Worker
    done: asyncio.Future[tuple[Trajectory, dict[Any, Any], NodeFailed | None]]
    writing: asyncio.Task[None] | None = None
    events: int = 0


class ClusterSession:
    """Plays the episodes of one run on workers.

    Args:
        ready: returns the links of all workers that run now: for the same worker, the same link.
        wait_s: how long the run waits for a worker when it has none.
    """

    def __init__(
        self,
        episodes: EpisodeFactory,
        ready: Callable[[], Sequence[WorkerLink]],
        wait_s: float = WAIT_FOR_NODES_S,
    ) -> None:
        self._episodes = episodes
        self._workers = SessionWorkers(ready, self._joined, self._lost, wait_s)
        self._placements: dict[int, RemoteEpisode] = {}
        self._unrecorded: dict[str, tuple[Worker, int]] = {}  # worker and number of ended, unrecorded episodes
        self._numbers = itertools.count()
        self._tasks: set[asyncio.Task[None]] = set()
        self._due: asyncio.Event | None = None  # while turns wait to be written together
        self._account, self._has_refused = open_account(), False
        policy = episodes.policy
        self._weights = policy.served_weights if isinstance(policy, Policy) else ()
        self._detach: list[Callable[[], None]] = []
        self._unsettled: dict[int, tuple[Worker, asyncio.Future[frozenset[str]]]] = {}

    async def open(self) -> None:
        """Begin the run on the workers. Raises: ClusterError if one refuses it."""
        self._detach = [weights.attach(partial(self._share, part)) for part, weights in enumerate(self._weights)]
        await self._workers.open()

    async def play(self, job: EpisodeJob, policy: Policy) -> None:
        """Play an episode on some node. If it failed because of its node, play it once more on another node.

        Raises: ClusterError if it waits for a worker for too long.
        """
        notes: list[str] = []
        failed_on: Worker | None = None
        while len(notes) <= MAX_MOVES:
            worker = await self._workers.choose(job.trajectory.id, avoid=failed_on)
            self._episodes.episode(job, policy)  # records the episode's settings in its provenance
            placement = self._assign(job, policy, worker)
            try:
                trajectory, checkpoints, failure = await placement.done
            except NodeLost as gone:
                notes.append(f"{gone} The episode began anew on another worker.")
                _clear(job.trajectory)
                continue
            worker.note_failure(failure)
            if failure is not None and failed_on is None and {*self._workers.alive} - {worker}:
                failed_on = worker
                notes.append(f"On {worker.link.name} it failed: {failure} It began anew on another node.")
                _clear(job.trajectory)
                continue
            self._unrecorded[job.trajectory.id] = worker, placement.number
            _copy(trajectory, job.trajectory)
            job.trajectory.provenance.retries[:0] = notes
            requested = self._episodes.config.checkpoints
            if requested is not None:
                requested.update((key, checkpoint) for key, checkpoint in checkpoints.items() if key in requested)
            return
        if self._episodes.config.ledger is not None:
            self._episodes.config.ledger.begin(job.trajectory)  # it may hold turns of the last attempt
        job.trajectory.stop_reason = StopReason.INFRA_ERROR
        job.trajectory.error = f"ClusterError: it lost its worker {len(notes)} times; the last time: {notes[-1]}"

    def recorded(self, job: EpisodeJob) -> None:
        """Tell the worker, if any, that it need not keep an episode's end any more: the ledger has it."""
        worker, number = self._unrecorded.pop(job.trajectory.id, (None, 0))
        if worker is not None:
            worker.send(("recorded", number, job.trajectory.id))

    def progress(self, job: EpisodeJob) -> tuple[int, str]:
        """Return a number that grows as the episode advances, and its current state."""
        for placement in self._placements.values():
            if placement.job is job:
                return placement.events, f"being played on {placement.worker.link.name}"
        return 0, "waiting for a worker"

    @property
    def playing(self) -> int:
        """The number of episodes on workers now."""
        return len(self._placements)

    def _assign(self, job: EpisodeJob, policy: Policy, worker: Worker) -> RemoteEpisode:
        """Send an episode to a worker."""
        number = next(self._numbers)
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        placement = self._placements[number] = RemoteEpisode(number, job, policy, worker, done)
        worker.episodes += 1

        def end(done: asyncio.Future[Any]) -> None:
            worker.episodes -= 1
            del self._placements[number]
            if done.cancelled():
                worker.send(("cancel", number))

        done.add_done_callback(end)
        worker.send(("start", number, job.trajectory, job.fork))
        return placement

    async def close(self) -> None:
        """End all running episodes, and wait until the workers have closed them."""
        for detach in self._detach:
            detach()
        for message in [*self._unsettled]:
            self._settle(message)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._workers.close()

    def _joined(self, worker: Worker) -> None:
        """Handle the events of a worker that has begun the run."""
        if self._account is not None and self._has_refused:
            worker.send(("refuse", None, self._account.refusal))
        for part, weights in enumerate(self._weights):  # they may have changed since the run began
            self._send_weights(worker, part, weights.state)
        self._start(self._pump(worker))

    def _share(self, part: int, state: Any) -> asyncio.Future[frozenset[str]]:
        """Send a part's state to all copies. Returns: the names that they still use, once all have settled."""
        settled = [self._send_weights(worker, part, state) for worker in self._workers.alive]

        async def names() -> frozenset[str]:
            return frozenset().union(*await asyncio.gather(*settled))

        return asyncio.ensure_future(names())

    def _send_weights(self, worker: Worker, part: int, state: Any) -> asyncio.Future[frozenset[str]]:
        message, settled = next(self._numbers), asyncio.get_running_loop().create_future()
        self._unsettled[message] = worker, settled
        worker.send(("weights", message, part, state))
        return settled

    def _settle(self, message: int, names: frozenset[str] = frozenset()) -> None:
        """Take note of a worker's answer to a state, or that none will come."""
        _, settled = self._unsettled.pop(message, (None, None))
        if settled is not None and not settled.done():
            settled.set_result(names)

    async def _pump(self, worker: Worker) -> None:
        """Handle a worker's events until it is gone."""
        while True:
            try:
                events = await worker.link.collect()
            except Exception as error:  # noqa: BLE001  after any error this worker is unreliable
                self._workers.lose(worker, error)
                return
            if worker.is_lost:
                return
            for event in events:
                self._handle(worker, event)

    def _lost(self, worker: Worker, reason: str) -> None:
        """End the episodes of a worker that is gone."""
        for placement in [*self._placements.values()]:
            if placement.worker is worker and not placement.done.done():
                placement.done.set_exception(NodeLost(reason))
        for message, (recipient, _) in [*self._unsettled.items()]:
            if recipient is worker:
                self._settle(message)

    def _handle(self, worker: Worker, event: Event) -> None:
        kind, number, *rest = event
        placement = self._placements.get(number) if number is not None else None
        if placement is not None:
            placement.events += 1
        if kind == "ask":
            request, method, arguments = rest
            policy = placement.policy if placement is not None else self._judge_policy(number)
            if policy is not None:
                writing = placement.writing if placement is not None else None
                self._start(self._answer(worker, policy, request, method, arguments, writing))
        elif kind == "paid":
            self._charge(*rest)
        elif kind == "settled":
            self._settle(*rest)
        elif placement is None or placement.done.done():
            return  # cancelled meanwhile
        elif kind == "end":
            trajectory, checkpoints, failure = rest
            placement.done.set_result((trajectory, checkpoints, failure))
        elif kind == "broken":
            placement.done.set_exception(
                ClusterError(f"An episode on {worker.link.name} ended with an internal error: {rest[0]}")
            )
        elif kind in ("begin", "turn"):
            # tasks start in the order of the events
            placement.writing = self._start(self._keep(placement, *rest))

    def _charge(self, policy: str, prompt_tokens: int, completion_tokens: int) -> None:
        """Count a paid request of a worker."""
        if self._account is None:
            return
        self._account.charge(policy, prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)
        self._tell_refusal()

    def _tell_refusal(self) -> None:
        """Tell every worker, once, that the account refuses further requests."""
        if self._account is None or self._has_refused or not (refusal := self._account.refusal):
            return
        self._has_refused = True
        for worker in self._workers.alive:
            worker.send(("refuse", None, refusal))

    def _judge_policy(self, number: int | None) -> Policy | None:
        """Return the policy of episode `number`, for a judge that asks the playing policy; None once it has ended."""
        policy = self._episodes.policy
        return policy if number is None and isinstance(policy, Policy) else None

    async def _answer(
        self,
        worker: Worker,
        policy: Policy,
        request: int,
        method: str,
        arguments: Any,
        writing: asyncio.Task[None] | None,
    ) -> None:
        """Ask the policy, once the episode's last turn is in the ledger."""
        if writing is not None and not writing.done():
            self._write_now()
            await asyncio.wait({writing})
        try:
            answer = await getattr(policy, method)(*arguments)
        except Exception as error:  # noqa: BLE001  raised again at the asking worker, which handles it
            answer = error if isinstance(error, PolicyError) else PolicyError(f"{type(error).__name__}: {error}")
        self._tell_refusal()  # the agent's own request may have exceeded the limit, before the judge on the worker asks
        worker.send(("answer", request, answer))

    async def _keep(self, placement: RemoteEpisode, turn: Turn | None = None, head: Trajectory | None = None) -> None:
        """Write an episode's start, or a turn, to the ledger. `head`: its other fields, sent with the first turn."""
        ledger, trajectory = self._episodes.config.ledger, placement.job.trajectory
        if ledger is None or placement.done.done():
            return
        if turn is None:
            ledger.begin(trajectory)
            return
        await self._is_due()
        if placement.done.done():
            return  # its end is written with all turns
        if head is not None:
            _copy(head, trajectory)
        try:
            await ledger.write_turn(trajectory, turn)
        except Exception as error:  # noqa: BLE001  a turn that cannot be written ends the run
            if not placement.done.done():
                placement.done.set_exception(error)

    async def _is_due(self) -> None:
        """Wait until a turn is to be written, together with all others that wait."""
        if self._due is None:
            self._due = asyncio.Event()
            asyncio.get_running_loop().call_later(WRITE_S, self._write_now)
        await self._due.wait()

    def _write_now(self) -> None:
        due, self._due = self._due, None
        if due is not None:
            due.set()

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that `close` cancels."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _copy(source: Trajectory, target: Trajectory) -> None:
    """Copy every field of an episode except the id and task, which the driver keeps."""
    for field in fields(Trajectory):
        if field.name not in ("id", "task"):
            setattr(target, field.name, getattr(source, field.name))


def _clear(trajectory: Trajectory) -> None:
    """Reset the trajectory to its state before it was played."""
    _copy(Trajectory(trajectory.id, trajectory.task, trajectory.sample, trajectory.seed), trajectory)
    trajectory.provenance = Provenance()
