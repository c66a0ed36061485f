"""Forks of this process, for what is killed in the middle or takes several processes.

They spare the imports, which take longer than the work.
"""

from __future__ import annotations

import os
import signal
import socket
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path


class Fork:
    """Runs `work` in a fork of this process, as `subprocess.Popen` runs a program. It prints into the log, if any.

    Its exit code is 0, or 3 after an exception.
    """

    def __init__(self, work: Callable[[], object], log: Path | None = None) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads; the fork uses none of them
            self.pid = os.fork()
        if self.pid == 0:
            exit_code = 3
            try:
                with open(log or os.devnull, "w") as output, redirect_stdout(output), redirect_stderr(output):
                    os.dup2(output.fileno(), 1)
                    os.dup2(output.fileno(), 2)
                    try:
                        work()
                        exit_code = 0
                    except BaseException:
                        traceback.print_exc()
                        raise
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


def start_processes(count: int, work: Callable[[], object], folder: Path) -> tuple[list[Fork], list[Path]]:
    """Run `work` in forks that have the environment variables of torchrun's processes.

    Args:
        folder: where they write what they print, into files of their own.
    Returns: the forks and their files, in the order of their ranks.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def work_of(rank: int) -> None:
        from accelerate.state import AcceleratorState, GradientState
        from torch import distributed

        names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        os.environ |= {name: str(value) for name, value in names.items()}
        AcceleratorState._reset_state(reset_partial_state=True)  # of trainings of this process, which was alone
        GradientState._reset_state()
        work()
        distributed.destroy_process_group()

    logs = [folder / f"rank-{rank}.txt" for rank in range(count)]
    return [Fork(partial(work_of, rank), log) for rank, log in enumerate(logs)], logs


def train_in_processes(count: int, work: Callable[[], object], folder: Path) -> str:
    """Run `work` as `start_processes` does, and wait until all succeed. Returns: what all have printed."""
    forks, logs = start_processes(count, work, folder)
    try:
        exit_codes = [fork.wait(120) for fork in forks]
    finally:
        for fork in forks:
            fork.send_signal(signal.SIGKILL)
    printed = "\n".join(log.read_text() for log in logs)
    assert exit_codes == [0] * count, printed
    return printed
