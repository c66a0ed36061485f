"""A fork of this process, for what is killed in the middle: it spares the imports, which take longer than the work."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable


class Fork:
    """Runs `work` in a fork of this process, as `subprocess.Popen` runs a program. It prints nothing.

    Its exit code is 0, or 3 after an exception.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads; the fork uses none of them
            self.pid = os.fork()
        if self.pid == 0:
            exit_code = 3
            try:
                silence = os.open(os.devnull, os.O_WRONLY)
                os.dup2(silence, 1)
                os.dup2(silence, 2)
                work()
                exit_code = 0
            finally:
                os._exit(exit_code)
        self.exit_code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        if self.exit_code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.exit_code = os.waitstatus_to_exitcode(status) if pid else None
        return self.exit_code

    def wait(self, timeout_s: float) -> int:
        """Return the exit code. Raises: TimeoutError if it still runs after this many seconds."""
        deadline = time.monotonic() + timeout_s
        while (exit_code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"process {self.pid} still runs after {timeout_s:g} s")
            time.sleep(0.002)
        return exit_code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)
