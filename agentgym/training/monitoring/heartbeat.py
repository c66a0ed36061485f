"""Occasional lines while a phase has nothing to report yet, so that it does not look stuck."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import TaskID

from agentgym.training.monitoring.progress import PhaseProgress

FIRST_S = 5.0
"""The seconds before the first line. The wait doubles with each further line."""


@contextmanager
def heartbeat(progress: PhaseProgress, phase: TaskID, text: str, *, first_s: float = FIRST_S) -> Iterator[None]:
    """Print lines with the elapsed time until a phase advances.

    Args:
        progress: the progress bars, whose console is used. phase: the phase's bar. text: the current activity.
    """
    done, began = threading.Event(), time.monotonic()
    bar = progress.tasks[progress.task_ids.index(phase)]

    def beat() -> None:
        wait_s = first_s
        while not done.wait(wait_s) and not bar.completed:
            line = f"{text}, {time.monotonic() - began:.0f} s so far"
            progress.console.print(line, style="dim", markup=False, highlight=False, soft_wrap=True)
            wait_s *= 2

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
