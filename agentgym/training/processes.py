"""The processes of one training, started by torchrun or accelerate: the first plays and decides, and all learn.

The first process owns the sandboxes, ledger, groups, credit, metrics and every decision to stop. All processes hold the
same weights, and each computes the gradients of its share of each batch. So the number of processes does not change
the episodes that are trained on.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch.distributed

from agentgym.errors import RecipeError

T = TypeVar("T")
_GRACE_S = 20
_TIMEOUT = timedelta(days=7)  # other processes wait this long while the first plays


@dataclass(frozen=True, slots=True)
class Processes:
    """This process's rank among the processes of the training.

    Attributes:
        rank: the index of this process, 0 for the first. `count`: the number of processes.
    """

    rank: int = 0
    count: int = 1

    @classmethod
    def joined(cls, device: str) -> Processes:
        """Join the processes that the launcher started with this one; without a launcher, return a single process.

        Args:
            device: "cpu", or a GPU's device name.
        """
        count = int(os.environ.get("WORLD_SIZE", "1"))
        if count == 1:
            return cls()
        from accelerate import PartialState

        state = PartialState(cpu=device == "cpu", timeout=_TIMEOUT)
        return cls(state.process_index, state.num_processes)

    def leave_at_exit(self) -> None:
        """Leave the process group when this process exits. Call only after success, because leaving may wait for
        processes that failed.

        Otherwise communication threads outlive the interpreter, which then sometimes aborts (pytorch/pytorch#179291).
        """
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
                torch.distributed.broadcast_object_list([False, None])
                raise
        torch.distributed.broadcast_object_list(outcome)
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
