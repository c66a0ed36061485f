"""Reports why training failed: memory has run out or is about to, or the loss is not a number."""

from __future__ import annotations

import _thread
import math
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from transformers import TrainerCallback

from agentgym.errors import PolicyError
from agentgym.policy.batching import is_out_of_memory
from agentgym.sandbox.pool.headroom import Headroom, measure_headroom

EVERY_S = 0.05
"""Seconds between two measurements of the free memory."""
PLAYING_REMEDY = "Lower machine.max_batch or machine.max_batch_tokens."
INTERRUPTED_AT = 0.5
"""A training is interrupted when less than this share of the reserved memory is free; at half of this share, the
process ends.
"""


@contextmanager
def stopped_before_memory_runs_out(
    stage: str,
    remedy: str,
    *,
    measure: Callable[[], Headroom] = measure_headroom,
    end: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Watch the main memory, and interrupt the block when almost no memory is free.

    An interrupt takes effect only when Python code runs again, and until then a long backward pass takes even more
    memory. If too little is left, the process prints the reason and ends, because the kernel would kill it without a
    message.

    Only the main thread can be interrupted: in other threads nothing is watched.

    Args:
        stage: the running stage, for the message. remedy: advice, for the message. measure: measures the free memory.
        end: ends the process with a message; by default at once, with exit code 1.
    Raises: PolicyError with the stage and the remedy.
    """
    end = end or _end_process
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    done, deciding, left_mib = threading.Event(), threading.Lock(), list[float]()

    def watch() -> None:
        while not done.wait(EVERY_S):
            headroom = measure()
            with deciding:
                if done.is_set():  # the code after the block must not be interrupted
                    return
                if left_mib and headroom.memory_mib < headroom.memory_kept_mib * INTERRUPTED_AT / 2:
                    end(_message(stage, headroom.memory_mib, remedy))
                    return
                if not left_mib and headroom.memory_mib < headroom.memory_kept_mib * INTERRUPTED_AT:
                    left_mib.append(headroom.memory_mib)
                    _thread.interrupt_main()

    watcher = threading.Thread(target=watch, name="memory watch", daemon=True)
    watcher.start()
    try:
        try:
            yield
        finally:
            with deciding:
                done.set()
            watcher.join()  # an interrupt that was already sent arrives here at the latest
    except KeyboardInterrupt as error:
        if not left_mib:
            raise
        raise PolicyError(_message(stage, left_mib[0], remedy)) from error
    finally:
        done.set()


def _message(stage: str, left_mib: float, remedy: str) -> str:
    return (
        f"The memory has nearly run out in {stage}: {left_mib:.0f} MiB are left, so it was stopped before the "
        f"kernel would have ended it. {remedy}"
    )


def _end_process(message: str) -> None:
    """Print an error and end the process, as two Ctrl-C would; the ledger and the files on disk are kept."""
    os.write(2, f"\nError: {message}\n".encode())
    os._exit(1)


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
        raise PolicyError(
            f"Memory ran out in {stage}. {remedy} The error was: {str(error).partition('. ')[0]}."
        ) from error


class DivergenceCallback(TrainerCallback):
    """Stops a stage whose loss or gradient is no longer finite.

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
                    f"The {self._stage} diverged: {name} was {value} at step {state.global_step}. Lower "
                    f"{self._learning_rate}."
                )
