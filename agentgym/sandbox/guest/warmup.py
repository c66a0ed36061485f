"""Serves some Python calls before the process is forked, so that the interpreter's caches are warm in every fork.

CPython specialises instructions and caches method look-ups when code runs for the first times. Without this, every
guest would repeat this work, and would unshare memory pages by writing to them.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from . import frames, identity, jobs, kernel, server, syscalls

_CALLS = 12  # Python 3.11 specialises an instruction after eight executions
_MAX_DESCRIPTORS = 64  # an old Python closes each descriptor by a separate call
_CALL = {"op": "python", "timeout": 60.0, "limit": 4096, "fds": 0}


def warm_up() -> None:
    """Serve some Python calls in this process, as a guest does. Only the interpreter's caches change.

    Raises: OSError, RuntimeError if that is impossible here.
    """
    before = list(map(int, os.listdir("/proc/self/fd")))
    host, control = socket.socketpair()
    guest = server.Guest(control, {"environment": jobs.inherited_environment(), "missing": {}, "cores": 1.0}, None)
    guest.runner.max_descriptors = _MAX_DESCRIPTORS
    try:
        with _harmless():
            _serve_calls(host, guest)
            guest.runner.prefork.drop()
    finally:
        kernel.set_dumpable(True)  # the guest has made itself undumpable
        jobs.writable_areas.cache_clear()
        for stream in (host, control, guest.poller):
            stream.close()
        syscalls.execute(syscalls.close_others(before))
    syscalls.execute([syscalls.poll_readable(0, wait=False)] * _CALLS)
    ctypes.CDLL(None).malloc_trim(0)


def _serve_calls(host: socket.socket, guest: server.Guest) -> None:
    replies = frames.FrameReader(frames.MAX_HEADER_BYTES, 4096)
    for number in range(2 * _CALLS):
        if number < _CALLS:
            guest.runner.prefork.forget()  # these calls fork; the later ones find a preforked child
        host.sendall(frames.encode({**_CALL, "id": number}, b"pass"))
        while (reply := replies.next()) is None:
            if syscalls.execute([syscalls.poll_readable(host.fileno(), wait=False)]):
                replies.feed(host.recv(4096))
            else:
                guest.run_once()
        if "error" in reply[0]:
            raise RuntimeError(f"the first call in a new sandbox failed: {reply[0]}")


@contextmanager
def _harmless() -> Iterator[None]:
    """Make `kill(-1)` impossible, and change no user id.

    A guest's signal to all processes reaches only its sandbox. Here it would reach the whole machine.
    """
    agent, kill = identity.AGENT, os.kill

    def kill_one(pid: int, number: int) -> None:
        if pid <= 0:
            raise RuntimeError(f"while a sandbox starts, it may signal only its own child processes, not {pid}")
        kill(pid, number)

    identity.AGENT, os.kill = os.geteuid(), kill_one
    try:
        yield
    finally:
        identity.AGENT, os.kill = agent, kill
