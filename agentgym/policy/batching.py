"""Collect requests of many concurrent episodes into batches for a model in this process.

A batch starts when every live episode waits for its reply. Without lockstep it also starts as soon as it is full or
its oldest request has waited long enough. The work runs in its own thread, one batch at a time, so that the event
loop stays free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar

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


class Batcher(Generic[J, R]):
    """Collects jobs, runs them as one batch, and returns each its result.

    Args:
        run: maps jobs to their results, in order; called in the worker thread, never concurrently.
        worker: the thread; may be shared, so that two batchers never use one model at the same time.
        max_batch: jobs in one batch.
        max_wait_s: the longest a job waits for others to join it. Unused in lockstep.
        lockstep: start only when every live episode waits, and in the order of the episodes' ids, so that
            batches, and with them floating-point rounding, are the same on every run.

    One event loop at a time; a new loop may follow when the old one is closed.
    """

    def __init__(
        self,
        run: Callable[[Sequence[J]], Sequence[R]],
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
        self._run, self._worker = run, worker
        self.max_batch, self.max_wait_s, self.lockstep = max_batch, max_wait_s, lockstep
        self._live: set[str] = set()
        self._pending: list[_Waiting[J, R]] = []
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
        self._pending.append(waiting)
        self._look(loop)
        if not self.lockstep and self._timer is None:
            self._timer = loop.call_later(self.max_wait_s, self._expire, loop)
        try:
            return await waiting.future
        finally:
            if waiting in self._pending:  # cancelled before its batch began
                self._pending.remove(waiting)
                self._look(loop)

    def started(self, episode: str) -> None:
        """Make batches wait for this episode."""
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
            self._pending.clear()  # the event loop of the waiting tasks has ended, and so have they
        return loop

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
        taken = len(self._pending) if self.lockstep else self.max_batch
        begun, self._pending = self._pending[:taken], self._pending[taken:]
        self._running = loop.create_task(self._work(loop, begun))

    async def _work(self, loop: asyncio.AbstractEventLoop, begun: list[_Waiting[J, R]]) -> None:
        """Run the collected jobs in batches. In lockstep the jobs form a round that later jobs cannot join."""
        try:
            for first in range(0, len(begun), self.max_batch):
                await self._run_batch(loop, begun[first : first + self.max_batch])
        finally:
            self._running = None
        if self._pending:
            self._look(loop)
            if not self.lockstep and self._timer is None:
                self._timer = loop.call_later(self.max_wait_s, self._expire, loop)

    async def _run_batch(self, loop: asyncio.AbstractEventLoop, batch: list[_Waiting[J, R]]) -> None:
        try:
            results = await loop.run_in_executor(self._worker, self._run, [waiting.job for waiting in batch])
        except Exception as error:  # noqa: BLE001  whatever the model raised belongs to those who asked
            for waiting in batch:
                if not waiting.future.done():
                    waiting.future.set_exception(_as_policy_error(error))
            return
        for waiting, result in zip(batch, results, strict=True):
            if not waiting.future.done():
                waiting.future.set_result(result)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means out of memory, on GPU or CPU. Checked by name, so that torch is not imported."""
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(names & {"OutOfMemoryError", "MemoryError"}) or "DefaultCPUAllocator" in str(error)


def _as_policy_error(error: Exception) -> PolicyError:
    """Return a new error for one waiting request: a shared exception object would collect all their tracebacks."""
    if isinstance(error, PolicyError):
        policy_error = type(error)(str(error))
    else:
        hint = f" {OUT_OF_MEMORY_REMEDY}" if is_out_of_memory(error) else ""
        policy_error = PolicyError(f"The model failed on a batch: {type(error).__name__}: {error}{hint}")
    policy_error.__cause__ = error
    return policy_error
