"""Stop a training before memory runs out, because the kernel would kill the process without a message."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentgym.errors import PolicyError
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
