"""The processes of one training, started by torchrun or accelerate: the first plays and decides, and all learn.

The first process owns the sandboxes, ledger, groups, credit, metrics and every decision to stop. All processes hold the
same weights, and each computes the gradients of its share of each batch. So the number of processes does not change
the episodes that are trained on.
"""

from __future__ import annotations

import atexit
import itertools
import os
import platform
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed

from agentgym.errors import RecipeError

T = TypeVar("T")
_GRACE_S = 20
_BEAT_S = 5.0
_COMPUTE_TIMEOUT = timedelta(minutes=30)  # of what all processes compute together
_PLAY_TIMEOUT = timedelta(days=7)  # the others wait this long while the first plays, and watches whether they live


class SilenceWatch:
    """Ends this process if another process of the training is silent: it hangs, or its host is gone.

    Each process writes a beat into the launcher's key-value store every few seconds, from a thread. The first process
    reads the beats of all others, and the others that of the first. This process then gets SIGTERM, which ends it as
    Ctrl-C would, or is killed if it cannot be interrupted.

    Args:
        rank, count: this process among those of the training.
        silence_s: how long a process may be silent, in seconds.
    """

    def __init__(self, rank: int, count: int, silence_s: float) -> None:
        self._rank, self._silence_s, self._beat_s = rank, silence_s, min(_BEAT_S, silence_s / 4)
        self._store = torch.distributed.distributed_c10d._get_default_store().clone()
        self._beats = itertools.count()
        self._heard: dict[int, tuple[str, float]] = {}  # each watched process's last beat, and when it was new
        self._beat()
        for other in range(1, count) if rank == 0 else range(1):
            self._store.wait([_key(other)])
            self._heard[other] = self._store.get(_key(other)).decode(), time.monotonic()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._exchange, self._judge)]
        for thread in self._threads:
            thread.start()
        atexit.register(self.end)

    def end(self) -> None:
        """Stop watching and beating."""
        self._ended.set()
        for thread in self._threads:
            thread.join(1.0)
        atexit.unregister(self.end)

    def _exchange(self) -> None:
        """Write and read beats. If the store's host is gone this may block, so another thread judges."""
        while not self._ended.wait(self._beat_s):
            try:
                self._beat()
                for other, (last, _) in self._heard.items():
                    if (beat := self._store.get(_key(other)).decode()) != last:
                        self._heard[other] = beat, time.monotonic()
            except RuntimeError:  # the store does not answer, so no process is heard: `_judge` sees it
                continue

    def _beat(self) -> None:
        self._store.set(_key(self._rank), f"host {platform.node()}, pid {os.getpid()}, {next(self._beats)}")

    def _judge(self) -> None:
        while not self._ended.wait(self._beat_s):
            for other, (beat, heard_at) in self._heard.items():
                if time.monotonic() - heard_at > self._silence_s:
                    message = (
                        f"Process {other} of this training ({beat.rpartition(',')[0]}) has not answered for "
                        f"{self._silence_s:g} s (machine.silence_s): it hangs, or its host cannot be reached. The "
                        "training ends; go on with --resume."
                    )
                    os.write(2, f"\nError: {message}\n".encode())
                    os.kill(os.getpid(), signal.SIGTERM)
                    time.sleep(_GRACE_S)
                    os._exit(1)


def _key(rank: int) -> str:
    return f"agentgym/beat/{rank}"


@dataclass(frozen=True, slots=True)
class Processes:
    """This process's rank among the processes of the training.

    Attributes:
        rank: the index of this process, 0 for the first. `count`: the number of processes.
    """

    rank: int = 0
    count: int = 1
    _sharing: Any = field(default=None, compare=False, kw_only=True)  # the group in which the others wait for the first
    _watch: SilenceWatch | None = field(default=None, compare=False, kw_only=True)

    @classmethod
    def joined(cls, device: str, silence_s: float) -> Processes:
        """Join the processes that the launcher started with this one; without a launcher, return a single process.

        Args:
            device: "cpu", or a GPU's device name.
            silence_s: see SilenceWatch.
        """
        count = int(os.environ.get("WORLD_SIZE", "1"))
        if count == 1:
            return cls()
        from accelerate import PartialState

        state = PartialState(cpu=device == "cpu", timeout=_COMPUTE_TIMEOUT)
        watch = SilenceWatch(state.process_index, state.num_processes, silence_s)
        sharing = torch.distributed.new_group(timeout=_PLAY_TIMEOUT)
        return cls(state.process_index, state.num_processes, _sharing=sharing, _watch=watch)

    def leave_at_exit(self) -> None:
        """Leave the process group when this process exits. Call only after success, because leaving may wait for
        processes that failed.

        Otherwise communication threads outlive the interpreter, which then sometimes aborts (pytorch/pytorch#179291).
        """
        if self._watch is not None:
            self._watch.end()
        if self.count > 1:
            atexit.register(_leave)

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def share(self, make: Callable[[], T]) -> T:
        """Call `make` in the first process and return its result in every process. All must call this together.

        Raises: in the first process, the errors of `make`; in the others, SystemExit.
        """
        if self.count == 1:
            return make()
        outcome: list[Any] = [None, None]
        if self.is_first:
            try:
                outcome = [True, make()]
            except KeyboardInterrupt:
                raise  # the launcher ends the others
            except BaseException:
                torch.distributed.broadcast_object_list([False, None], group=self._sharing)
                raise
        torch.distributed.broadcast_object_list(outcome, group=self._sharing)
        ok, value = outcome
        if not ok:
            # The launcher ends all processes once one exits: let the first print its error.
            time.sleep(_GRACE_S)
            raise SystemExit(1)
        return value  # type: ignore[no-any-return]

    def gather(self, value: T) -> list[T]:
        """Return the value of each process, in rank order. All must call this together."""
        if self.count == 1:
            return [value]
        values: list[Any] = [None] * self.count
        torch.distributed.all_gather_object(values, value)
        return values

    def own_part(self, rows: list[T]) -> list[T]:
        """Return this process's rows of a batch that divides evenly."""
        size = len(rows) // self.count
        return rows[self.rank * size : (self.rank + 1) * size]

    def part_of(self, total: int, key: str) -> int:
        """Return the number of rows per process. Raises: RecipeError naming `key` if `total` does not divide evenly."""
        if total % self.count:
            raise RecipeError(
                f"{key}: {total} rows cannot be divided evenly among {self.count} processes. Choose a multiple of "
                f"{self.count}."
            )
        return total // self.count


def _leave() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


ALONE = Processes()
"""A single process, which plays and learns."""
