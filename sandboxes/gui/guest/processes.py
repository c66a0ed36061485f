"""Processes of an application: keeps their output, and ends all of them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from typing import IO

_CHUNK, _END_S = 1 << 16, 5.0


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and its process group."""
    with contextlib.suppress(ProcessLookupError):  # all have ended
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def end_those_at_home_in(folder: str) -> None:
    """End the processes that an application started in separate sessions, recognised by its $HOME."""
    home = f"HOME={folder}".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # the process has ended, or belongs to another user
            with open(f"/proc/{name}/environ", "rb") as file:
                is_at_home = home in file.read().split(b"\0")
            if is_at_home:
                os.kill(int(name), signal.SIGKILL)


class Output:
    """The last `most` bytes of a process's output, read by a thread while the process runs.

    `when_cut` is called once, if there is more.
    """

    def __init__(self, pipe: IO[bytes], most: int, when_cut: Callable[[], object] | None = None) -> None:
        self._printed, self._most, self._when_cut, self.is_cut = bytearray(), most, when_cut, False
        self._reader = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self._reader.start()

    def __bytes__(self) -> bytes:
        """Return the kept bytes. Call it after the process has ended."""
        self._reader.join(_END_S)
        return bytes(self._printed)

    def __bool__(self) -> bool:
        return bool(bytes(self).strip())

    def __str__(self) -> str:
        """Return the beginning and the end of the output, which usually tell why a program failed."""
        text = bytes(self).decode("utf-8", "replace").strip()
        return (f"{text[:400]} ... {text[-400:]}" if len(text) > 850 else text) or "it printed nothing"

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            while piece := os.read(pipe.fileno(), _CHUNK):
                self._printed += piece
                if len(self._printed) > self._most:
                    if not self.is_cut and self._when_cut is not None:
                        self._when_cut()
                    self.is_cut = True
                    del self._printed[: -self._most]
