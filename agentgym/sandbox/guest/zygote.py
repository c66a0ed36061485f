"""The template: a fork of the spawner that does nothing but fork for it, and so shares its memory with every sandbox.

Each fork goes on in new namespaces as process 1 of a sandbox, the guest, or as the builder of a layer; or, in the
spawner's own, to refresh what is mounted in a sandbox. All of them are children of the spawner. What they have to do
comes as a list of steps, since every object that Python looks at is a page of memory that is no longer shared.
"""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from marshal import dumps, loads  # names of functions rather than of modules: one object less to look at for each
from os import close, dup2, getppid, getresuid, read
from typing import Any, NoReturn

from . import archive, boot, kernel, server, syscalls
from .frames import GO, MAX_DATAGRAM, receive_into
from .syscalls import Syscall, execute

_FIRST, _CONTROL = boot.RECEIVED, boot.CONTROL
_WAIT_FOR_REQUEST = [syscalls.poll_readable(boot.CONTROL, -1)]
_GO = boot.RECEIVED + 1  # place of the pipe that tells a child to begin: what it needs from outside is there
_REFRESHED = json.dumps({"kind": "reset"}).encode()
_CHANGES = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", boot.RECEIVED + 4))]
_MOST_STEPS = 1 << 15  # bytes that the steps of an order take
_MOST_PASSED = 4
_NUMBER = 8  # bytes of the number of namespaces in an order, and of the answer


class Zygote:
    """The spawner's side of it."""

    def __init__(self, spawner: int, keep: Iterable[int]) -> None:
        """Fork it. `spawner`: a pidfd of this process. `keep`: descriptors that steps name. Raises: OSError."""
        self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                kernel.die_with_parent()
                if not execute([syscalls.poll_readable(spawner, 0)]):
                    execute(syscalls.close_others([theirs.fileno(), spawner, *keep]))
                    _serve(theirs)
            finally:
                os._exit(1)
        theirs.close()
        self.process = os.pidfd_open(self.pid)  # readable once it has ended

    def fork(
        self, namespaces: int, kind: str, spec: dict[str, Any], setup: Iterable[Syscall], passed: Sequence[int]
    ) -> None:
        """Have it fork a child that sets up and goes on as a `kind`. `child_pid` tells who that is.

        Args:
            kind: "guest", "layer", "refresh". spec: as the host sent it.
            passed: descriptors that the child has as `boot.RECEIVED` and on; the second is a pipe that says `GO`.
        Raises: ConnectionError if the template is gone.
        """
        message = dumps((kind, list(setup), spec))
        socket.send_fds(self._orders, [namespaces.to_bytes(_NUMBER, "big") + message], passed)

    def child_pid(self) -> int:
        """Pid of the child that was forked on the last order.

        Raises: ConnectionError if the template is gone; another OSError if it could not fork.
        """
        answer = int.from_bytes(self._orders.recv(_NUMBER), "big", signed=True)
        if answer < 0:
            raise OSError(-answer, os.strerror(-answer), "clone")
        if answer == 0:
            raise ConnectionResetError("the template is gone")
        return answer


def _serve(orders: socket.socket) -> NoReturn:
    message, own = bytearray(MAX_DATAGRAM + _MOST_STEPS), orders.fileno()
    while True:
        count, passed = receive_into(orders, message, _MOST_PASSED)
        if not count:
            os._exit(0)
        try:
            pid = kernel.fork_into(int.from_bytes(message[:_NUMBER], "big") | kernel.CLONE_PARENT)
        except OSError as error:
            pid = -(error.errno or 1)
        if pid == 0:
            close(own)  # held open, it would hide from the spawner that a template was killed before it answered
            _start_child(memoryview(message)[_NUMBER:count], passed)
        message[:count] = bytes(count)  # what one sandbox is told, such as its environment, is not for the next
        orders.send(pid.to_bytes(_NUMBER, "big", signed=True))
        for descriptor in passed:
            os.close(descriptor)


def _start_child(message: memoryview, passed: list[int]) -> NoReturn:
    """In a fork of the template, which it never comes back into."""
    try:
        place = _FIRST
        for descriptor in passed:
            dup2(descriptor, place, False)
            close(descriptor)
            place += 1
        kind, setup, spec = loads(message)
        _KINDS[kind](setup, spec)
    finally:
        os._exit(1)


def _become_guest(setup: list[Syscall], spec: dict[str, Any]) -> None:
    """Go on as process 1 of a sandbox, and do nothing more until the host asks for something."""
    if read(_GO, 1) != GO:
        return  # the spawner is gone, or could not
    control = _FIRST
    try:
        gone = execute(setup)
        control = _CONTROL
        _check_confined()
    except OSError as error:
        server.refuse(socket.socket(fileno=control), describe_error(error))
    if gone:
        return
    execute(_WAIT_FOR_REQUEST)
    stream = socket.socket(fileno=_CONTROL)
    if stream.recv(1, socket.MSG_PEEK):
        os.close(boot.SPAWNER)
        server.serve(stream, spec, boot.MEMORY if spec["counted"] else None, boot.CHANGES if spec["layers"] else -1)


def _build_layer(setup: list[Syscall], _: dict[str, Any]) -> None:
    """Make a layer of an archive, and tell the spawner how many bytes it takes."""
    said = boot.RECEIVED + 2
    try:
        if read(_GO, 1) != GO:
            return
        gone = execute(setup)
        said = boot.MEMORY[0]
        _check_confined()
        if gone:
            return
        os.close(boot.SPAWNER)
        os.lseek(boot.CONTROL, 0, os.SEEK_SET)
        with open(boot.CONTROL, "rb") as source:
            used = archive.unpack(source, as_layer=True)
        os.write(said, str(used).encode())
        os._exit(0)
    except OSError as error:
        os.write(said, describe_error(error).encode())
    except ValueError as error:
        os.write(said, str(error).encode()[:2000])


def _refresh(setup: list[Syscall], spec: dict[str, Any]) -> None:
    """Exchange what is mounted in a sandbox, and tell the host what came of it, on the lifeline that came last."""
    if read(_GO, 1) != GO:
        return  # it ends instead, or could not let go of what it has
    lifeline = socket.socket(fileno=_FIRST + 3)
    try:
        execute(setup)
    except OSError as error:
        lifeline.send(json.dumps({"kind": "unavailable", "text": describe_error(error)}).encode(), socket.MSG_DONTWAIT)
        return
    lifeline.sendmsg([_REFRESHED], _CHANGES if spec["layers"] else ())
    os._exit(0)


def _check_confined() -> None:
    """No user but the sandbox's, and nobody above it."""
    if 0 in getresuid() or getppid() != 0:
        raise PermissionError(f"still user {getresuid()}, parent {getppid()}: refusing to run anything")


_KINDS: dict[str, Callable[[list[Syscall], dict[str, Any]], None]] = {
    "guest": _become_guest,
    "layer": _build_layer,
    "refresh": _refresh,
}


def describe_error(error: OSError) -> str:
    return f"{error.strerror or error}" + (f" at {error.filename2 or error.filename}" if error.filename else "")
