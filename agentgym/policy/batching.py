"""Collect requests of many concurrent episodes into batches for a model in this process.

A batch starts when every live episode waits for its reply. Without lockstep it also starts as soon as it is full or
its oldest request has waited long enough. The work runs in its own thread, one batch at a time, so that the event
loop stays free. A StreamBatcher's batch answers each request as soon as it is done, and takes in new ones meanwhile.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import takewhile
from threading import Lock
from typing import Any, Generic, TypeVar

from typing_extensions import override

from agentgym.errors import PolicyError

J = TypeVar("J")
R = TypeVar("R")

OUT_OF_MEMORY_REMEDY = (
    "The memory ran out: give the policy a smaller max_batch_tokens or max_batch, less reuse_mib, fewer context_tokens "
    "or a smaller dtype (in a recipe machine.max_batch_tokens, machine.max_batch and [policy]), or episodes fewer "
    "tokens."
)
SETTLE = 8  # passes of the event loop to wait, so that an ended episode's successor can join the batch


@dataclass(slots=True)
class _Waiting(Generic[J, R]):
    job: J
    episode: str
    future: asyncio.Future[R] = field(compare=False)


class Collector(ABC, Generic[J, R]):
    """Collects jobs, runs them together, and returns each its result.

    Args:
        worker: the thread; may be shared, so that two batchers never use one model at the same time.
        max_batch: jobs in one batch.
        max_wait_s: the longest a job waits for others to join it. Unused in lockstep.
        lockstep: start only when every live episode waits, and in the order of the episodes' ids, so that
            batches, and with them floating-point rounding, are the same on every run.

    One event loop at a time; a new loop may follow when the old one is closed.
    """

    def __init__(
        self,
        worker: ThreadPoolExecutor,
        *,
        max_batch: int = 64,
        max_wait_s: float = 0.01,
        lockstep: bool = False,
    ) -> None:
        if max_batch < 1 or max_wait_s < 0:
            raise ValueError(
                f"max_batch = {max_batch} and max_wait_s = {max_wait_s} are not valid: max_batch must be at least 1, "
                "and max_wait_s at least 0."
            )
        self._worker = worker
        self.max_batch, self.max_wait_s, self.lockstep = max_batch, max_wait_s, lockstep
        self._live: set[str] = set()
        self._pending: list[_Waiting[J, R]] = []
        self._changing_pending = Lock()  # the worker thread of a StreamBatcher takes pending jobs too
        self._running: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._settle = 0
        self._closed = False

    async def submit(self, job: J, episode: str = "") -> R:
        """Add a job and wait for its result. Raises: any error of `run`, wrapped in PolicyError."""
        if self._closed:
            raise PolicyError(
                "This policy is closed and answers no more requests. Create a new one, or close it after the last "
                "episode."
            )
        loop = self._enter_loop()
        waiting: _Waiting[J, R] = _Waiting(job, episode, loop.create_future())
        with self._changing_pending:
            self._pending.append(waiting)
        self._look_soon(loop)
        try:
            return await waiting.future
        finally:
            with self._changing_pending:
                is_waiting = waiting in self._pending  # cancelled before its batch began
                if is_waiting:
                    self._pending.remove(waiting)
            if is_waiting:
                self._look(loop)

    @property
    def is_busy(self) -> bool:
        """Return whether jobs wait or run."""
        return bool(self._pending) or self._running is not None

    def started(self, episode: str) -> None:
        """Make batches wait for requests of this episode."""
        self._live.add(episode)

    def ended(self, episode: str) -> None:
        """Stop making batches wait for this episode."""
        self._live.discard(episode)
        if self._pending and self._loop is not None and not self._loop.is_closed():
            self._look(self._loop)

    def close(self) -> None:
        """Reject new jobs and fail the waiting ones."""
        self._closed = True
        if self._loop is None or self._loop.is_closed():
            return
        for waiting in self._pending:
            if not waiting.future.done():
                waiting.future.set_exception(PolicyError("The policy was closed before it answered this request."))
        self._pending.clear()

    def _enter_loop(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._running, self._timer, self._settle = loop, None, None, 0
            self._pending.clear()  # the waiting tasks have ended with their event loop
        return loop

    def _look_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        self._look(loop)
        if not self.lockstep and self._timer is None:
            self._timer = loop.call_later(self.max_wait_s, self._expire, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Start a batch, if one is due, after a few passes of the event loop: later requests can still join."""
        if self._settle == 0:
            loop.call_soon(self._settled, loop)
        self._settle = SETTLE if self.lockstep else 1

    def _settled(self, loop: asyncio.AbstractEventLoop) -> None:
        self._settle = max(0, self._settle - 1)
        if self._settle:
            loop.call_soon(self._settled, loop)
        elif self._due():
            self._start(loop)

    def _due(self) -> bool:
        if not self._pending or self._running is not None:
            return False
        waiting = {job.episode for job in self._pending}
        return waiting >= self._live or (not self.lockstep and len(self._pending) >= self.max_batch)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._pending and self._running is None:
            self._start(loop)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.lockstep:
            self._pending.sort(key=lambda waiting: waiting.episode)
        begun = self._take(len(self._pending) if self.lockstep else self.max_batch)
        self._running = loop.create_task(self._work(loop, begun))

    def _take(self, count: int) -> list[_Waiting[J, R]]:
        """Remove and return the first jobs that wait."""
        with self._changing_pending:
            taken, self._pending = self._pending[:count], self._pending[count:]
        return taken

    async def _work(self, loop: asyncio.AbstractEventLoop, begun: list[_Waiting[J, R]]) -> None:
        """Run the collected jobs. In lockstep the jobs form a round that later jobs cannot join."""
        try:
            await self._run_round(loop, begun)
        finally:
            self._running = None
        if self._pending:
            self._look_soon(loop)

    @abstractmethod
    async def _run_round(self, loop: asyncio.AbstractEventLoop, begun: list[_Waiting[J, R]]) -> None:
        """Run these jobs in the worker thread, and set each job's result or error."""


class Batcher(Collector[J, R]):
    """Collects jobs, runs them as one batch, and returns all results at its end.

    Args:
        run: maps jobs to their results, in order; called in the worker thread, never concurrently. If it yields
            results one by one, it is stopped once all requests of the batch are cancelled.
        worker, options: as for Collector.
    """

    def __init__(self, run: Callable[[Sequence[J]], Iterable[R]], worker: ThreadPoolExecutor, **options: Any) -> None:
        super().__init__(worker, **options)
        self._run = run

    @override
    async def _run_round(self, loop: asyncio.AbstractEventLoop, begun: list[_Waiting[J, R]]) -> None:
        for first in range(0, len(begun), self.max_batch):
            await self._run_batch(loop, begun[first : first + self.max_batch])

    async def _run_batch(self, loop: asyncio.AbstractEventLoop, batch: list[_Waiting[J, R]]) -> None:
        def run() -> list[R]:
            results = self._run([waiting.job for waiting in batch])
            return list(takewhile(lambda _: not all(waiting.future.done() for waiting in batch), results))

        try:
            results = await loop.run_in_executor(self._worker, run)
        except Exception as error:  # noqa: BLE001  whatever the model raised belongs to those who asked
            for waiting in batch:
                if not waiting.future.done():
                    waiting.future.set_exception(_as_policy_error(error))
            return
        for waiting, result in zip(batch, results, strict=False):  # fewer results if no request waits
            if not waiting.future.done():
                waiting.future.set_result(result)


class JobStream(Generic[J]):
    """The jobs of a running batch. The worker thread takes them in order, and finishes each when it is done.

    Args:
        begun: the jobs that the batch begins with.
        more: returns the jobs submitted since the last call; called in the worker thread when no other job is left.

    The last job's result is held back until the worker has stopped using the model, which its submitter may then
    change.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        begun: Sequence[_Waiting[J, J]],
        more: Callable[[], Sequence[_Waiting[J, J]]] = lambda: (),
    ) -> None:
        self._loop, self._more = loop, more
        self._waiting, self._taken = deque(begun), dict[int, _Waiting[J, J]]()
        self._last: _Waiting[J, J] | None = None  # finished, but held back until the next `take` or the worker's stop

    @property
    def next(self) -> J | None:
        """Return the next job without taking it; None if there is none now. Cancelled jobs are left out."""
        if not self._waiting:
            self._waiting.extend(self._more())
        while self._waiting and self._waiting[0].future.done():
            self._waiting.popleft()
        return self._waiting[0].job if self._waiting else None

    def take(self) -> J:
        """Take the next job."""
        waiting = self._waiting.popleft()
        self._taken[id(waiting.job)] = waiting
        if self._last is not None:
            self._loop.call_soon_threadsafe(_return_job, self._last)
            self._last = None
        return waiting.job

    def is_awaited(self, job: J) -> bool:
        """Return whether the request of a job that was taken still waits for it."""
        return not self._taken[id(job)].future.done()

    def finish(self, job: J) -> None:
        """Return a finished job to its submitter."""
        waiting = self._taken.pop(id(job))
        if self._taken or self.next is not None:
            self._loop.call_soon_threadsafe(_return_job, waiting)
        else:
            self._last = waiting

    def end(self) -> None:
        """Return the last job to its submitter; called in the event loop, after the worker has stopped."""
        if self._last is not None:
            _return_job(self._last)

    def fail(self, error: Exception) -> None:
        """Fail all jobs that are not finished; called in the event loop, after the worker has stopped."""
        for waiting in [*self._taken.values(), *self._waiting]:
            if not waiting.future.done():
                waiting.future.set_exception(_as_policy_error(error))


class StreamBatcher(Collector[J, J]):
    """Collects jobs, runs them together, and returns each as soon as it is done, while others still run.

    Args:
        stream: does the jobs of a JobStream until none is left; called in the worker thread.
        pauses: returns whether a running batch must take no more jobs, so that the worker becomes free.
        worker, options: as for Collector.

    Without lockstep, jobs submitted meanwhile join the batch. In lockstep a batch has all its jobs from the start.
    """

    def __init__(
        self,
        stream: Callable[[JobStream[J]], None],
        worker: ThreadPoolExecutor,
        *,
        pauses: Callable[[], bool] = lambda: False,
        **options: Any,
    ) -> None:
        super().__init__(worker, **options)
        self._stream, self._pauses = stream, pauses

    @override
    async def _run_round(self, loop: asyncio.AbstractEventLoop, begun: list[_Waiting[J, J]]) -> None:
        jobs = JobStream(loop, begun) if self.lockstep else JobStream(loop, begun, self._joining)
        try:
            await loop.run_in_executor(self._worker, self._stream, jobs)
        except Exception as error:  # noqa: BLE001  whatever the model raised belongs to those who asked
            jobs.fail(error)
        finally:
            jobs.end()

    def _joining(self) -> list[_Waiting[J, J]]:
        return [] if self._pauses() else self._take(self.max_batch)


def _return_job(waiting: _Waiting[J, J]) -> None:
    if not waiting.future.done():
        waiting.future.set_result(waiting.job)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means out of memory, on GPU or CPU. Checked by name, so that torch is not imported."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"OutOfMemoryError", "MemoryError"}) or "DefaultCPUAllocator" in str(error)


def _as_policy_error(error: Exception) -> PolicyError:
    """Return a new error for one waiting request. A shared exception would collect the tracebacks of all requests."""
    if isinstance(error, PolicyError):
        policy_error = type(error)(str(error))
    else:
        hint = f" {OUT_OF_MEMORY_REMEDY}" if is_out_of_memory(error) else ""
        policy_error = PolicyError(f"The model failed on a batch: {type(error).__name__}: {error}{hint}")
    policy_error.__cause__ = error
    return policy_error
