"""The processes of one training, as torchrun or accelerate start them: the first plays and decides, all of them learn.

The first owns sandboxes, ledger, groups, credit, metrics and every decision to stop; the others hold the same weights
and compute gradients of their share of each batch. So one and several processes train on the same episodes.
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
_TIMEOUT = timedelta(days=7)  # the others wait for as long as the first plays


@dataclass(frozen=True, slots=True)
class Processes:
    """Which of how many processes this one is.

    Attributes:
        rank: 0 for the first. `count`: of all.
    """

    rank: int = 0
    count: int = 1

    @classmethod
    def joined(cls, device: str) -> Processes:
        """Join the processes that were started with this one; alone without a launcher.

        Args:
            device: "cpu", or that of a GPU.
        """
        count = int(os.environ.get("WORLD_SIZE", "1"))
        if count == 1:
            return cls()
        from accelerate import PartialState

        state = PartialState(cpu=device == "cpu", timeout=_TIMEOUT)
        return cls(state.process_index, state.num_processes)

    def leave_at_exit(self) -> None:
        """Leave the other processes when this one ends. Call it after success: leaving may wait for those that failed.

        Otherwise threads of the communication outlive the interpreter, which then aborts now and then
        (pytorch/pytorch#179291).
        """
        if self.count > 1:
            atexit.register(_leave)

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def share(self, make: Callable[[], T]) -> T:
        """Let the first process make something; every process gets it. All must call this together.

        Raises: what `make` raises, in the first process; SystemExit in the others, which have nothing to add.
        """
        if self.count == 1:
            return make()
        outcome: list[Any] = [None, None]
        if self.is_first:
            try:
                outcome = [True, make()]
            except BaseException:
                torch.distributed.broadcast_object_list([False, None])
                raise
        torch.distributed.broadcast_object_list(outcome)
        ok, value = outcome
        if not ok:
            time.sleep(_GRACE_S)  # the launcher ends all as soon as one has ended: let the first say why
            raise SystemExit(1)
        return value  # type: ignore[no-any-return]

    def gather(self, value: T) -> list[T]:
        """Return the value of each process, in their order. All must call this together."""
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
        """Rows of each process. Raises: RecipeError naming `key` if `total` rows do not divide evenly."""
        if total % self.count:
            raise RecipeError(f"{key}: {total} rows cannot be shared out evenly among {self.count} processes.")
        return total // self.count


def _leave() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


ALONE = Processes()
"""One process, which plays and learns."""
