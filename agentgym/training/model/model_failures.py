"""Report why training failed: memory that ran out or is about to, and a loss that is not a number."""

from __future__ import annotations

import _thread
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from transformers import TrainerCallback

from agentgym.errors import PolicyError
from agentgym.policy.batching import is_out_of_memory
from agentgym.sandbox.pool.headroom import Headroom, measure_headroom

EVERY_S = 0.1
"""Seconds between two measurements of the free memory."""


@contextmanager
def stopped_before_memory_runs_out(
    stage: str, remedy: str, *, measure: Callable[[], Headroom] = measure_headroom
) -> Iterator[None]:
    """Watch the main memory, and interrupt the block when nearly none is free.

    Only the main thread can be interrupted: in other threads nothing is watched.

    Args:
        stage: the running stage, for the message. remedy: advice, for the message. measure: measures the free memory.
    Raises: PolicyError with the stage and the remedy.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    done, deciding, left_mib = threading.Event(), threading.Lock(), list[float]()

    def watch() -> None:
        while not done.wait(EVERY_S):
            headroom = measure()
            if headroom.memory_mib < headroom.memory_kept_mib / 2:
                with deciding:
                    if not done.is_set():  # else the interrupt would hit what comes after the block
                        left_mib.append(headroom.memory_mib)
                        _thread.interrupt_main()
                return

    watcher = threading.Thread(target=watch, name="memory watch", daemon=True)
    watcher.start()
    try:
        try:
            yield
        finally:
            with deciding:
                done.set()
            watcher.join()  # an interrupt that was sent arrives here at the latest
    except KeyboardInterrupt as error:
        if not left_mib:
            raise
        raise PolicyError(
            f"The memory has nearly run out in {stage}: {left_mib[0]:.0f} MiB are left, so it was stopped before the "
            f"kernel would have ended it. {remedy}"
        ) from error
    finally:
        done.set()


@contextmanager
def out_of_memory_named(stage: str, remedy: str) -> Iterator[None]:
    """Report an out-of-memory error in one line, and stop before the kernel kills the process.

    Raises: PolicyError that names the stage and the remedy.
    """
    try:
        with stopped_before_memory_runs_out(stage, remedy):
            yield
    except (RuntimeError, MemoryError) as error:
        if isinstance(error, PolicyError) or not is_out_of_memory(error):
            raise
        raise PolicyError(f"The memory ran out in {stage}. {remedy} {str(error).partition('. ')[0]}.") from error


class DivergenceCallback(TrainerCallback):
    """Stop a stage whose loss or gradient is no longer finite.

    Transformers filters non-finite values out of the logged loss, but not out of the logged gradient norm.

    Args:
        stage: the stage, for the message. `learning_rate`: the recipe's key of its learning rate.
    """

    def __init__(self, stage: str, learning_rate: str) -> None:
        self._stage, self._learning_rate = stage, learning_rate

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        for name in ("loss", "grad_norm"):
            if not math.isfinite(value := float((logs or {}).get(name, 0.0))):
                raise PolicyError(
                    f"The {self._stage} diverged: {name} was {value} at step {state.global_step}. "
                    f"Lower {self._learning_rate}."
                )
