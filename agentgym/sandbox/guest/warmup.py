"""The guest's part played through once, before the process is forked for whom it is played.

What Python looks up when it runs code for the first time, it writes down: which method a name means, what an
instruction mostly works on. Else each guest had to find that out anew, and made the pages it is written to its own.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from . import frames, identity, jobs, kernel, reset, server, syscalls

_ROUNDS = 12  # Python 3.11 settles on what an instruction works on after eight
_MOST_DESCRIPTORS = 64  # an old Python closes them one by one
_CALL = {"op": "python", "timeout": 60.0, "limit": 4096, "fds": 0}


def warm_up() -> None:
    """Serve some Python calls in this process, as a guest does. Nothing of it remains but what Python has learnt.

    Raises: OSError, RuntimeError if it cannot be done here.
    """
    before = list(map(int, os.listdir("/proc/self/fd")))
    host, control = socket.socketpair()
    guest = server.Guest(control, {"environment": jobs.inherited_environment(), "missing": {}}, None)
    guest.runner.max_descriptors = _MOST_DESCRIPTORS
    try:
        with _harmless():
            _ask(host, guest)
            guest.runner.prefork.drop()
    finally:
        kernel.set_dumpable(True)  # the guest has hidden itself
        jobs.writable_areas.cache_clear()
        for one in (host, control, guest.poller):
            one.close()
        syscalls.execute(syscalls.close_others(before))
    syscalls.execute([syscalls.poll_readable(0, 0)] * _ROUNDS)
    ctypes.CDLL(None).malloc_trim(0)


def _ask(host: socket.socket, guest: server.Guest) -> None:
    replies = frames.FrameReader(frames.MAX_HEADER_BYTES, 4096)
    for number in range(2 * _ROUNDS):
        if number < _ROUNDS:
            guest.runner.prefork.forget()  # so that each has a fork of its own; later ones find one made ahead
        reset.read_state()
        host.sendall(frames.encode({**_CALL, "id": number}, b"pass"))
        while (reply := replies.next()) is None:
            if syscalls.execute([syscalls.poll_readable(host.fileno(), 0)]):
                replies.feed(host.recv(4096))
            else:
                guest.run_once()
        if "error" in reply[0]:
            raise RuntimeError(f"a guest's first call said {reply[0]}")


@contextmanager
def _harmless() -> Iterator[None]:
    """No signal to all: a guest's reach everybody in its sandbox, and here, everybody. No change of user either."""
    agent, kill = identity.AGENT, os.kill

    def kill_one(pid: int, number: int) -> None:
        if pid <= 0:
            raise RuntimeError("a guest that is only rehearsed has nobody to signal but its children")
        kill(pid, number)

    identity.AGENT, os.kill = os.geteuid(), kill_one
    try:
        yield
    finally:
        identity.AGENT, os.kill = agent, kill
