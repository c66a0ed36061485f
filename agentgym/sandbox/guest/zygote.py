"""The zygote: a fork of the spawner whose only work is to fork, so that every sandbox shares its memory.

Each fork continues in new namespaces as process 1 of a sandbox (the guest) or as the builder of a layer. All are
children of the spawner. What they have to do arrives as a list of system calls: every Python object that a fork touches
is a page of memory that it no longer shares.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Sequence
from marshal import dumps, loads  # imported as names: one object less to touch for each call
from os import close, dup2, getppid, getresuid, read
from typing import Any, NoReturn

from . import archive, boot, kernel, server, syscalls
from .frames import GO, MAX_DATAGRAM, receive_into
from .syscalls import Syscall, execute

_FIRST, _CONTROL = boot.RECEIVED, boot.CONTROL
_WAIT_FOR_REQUEST = [syscalls.poll_readable(boot.CONTROL, -1)]
_GO = boot.RECEIVED + 1  # the pipe that tells a child to begin, once its user ids and limits are set
_MAX_CALL_BYTES = 1 << 15  # bytes of the system calls in a request
_MAX_PASSED = 4
_COMMAND_LINE = b"agentgym-guest"  # what sandboxes see; the spawner's names paths and processes of the host
_NUMBER = 8  # bytes of the namespace flags in a request, and of the answer


class Zygote:
    """The spawner's handle of the zygote process."""

    def __init__(self, spawner: int, keep: Iterable[int]) -> None:
        """Fork it. Raises: OSError.

        Args:
            spawner: a pidfd of this process. keep: descriptors that the system calls name.
        """
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                kernel.die_with_parent()
                if not execute([syscalls.poll_readable(spawner, 0)]):
                    execute(syscalls.close_others([theirs.fileno(), spawner, *keep]))
                    kernel.show_command_line(_COMMAND_LINE)
                    _serve(theirs)
            finally:
                os._exit(1)
        theirs.close()
        self.process = os.pidfd_open(self.pid)  # readable once it has ended

    def fork(
        self, namespaces: int, kind: str, spec: dict[str, Any], setup: Iterable[Syscall], passed: Sequence[int]
    ) -> None:
        """Have the zygote fork a child, which executes `setup` and continues as `kind`. `child_pid` returns its pid.

        Args:
            kind: "guest" or "layer". spec: as the host sent it.
            passed: descriptors that the child gets, from `boot.RECEIVED` on. The second is a pipe that says `GO`.
        Raises: ConnectionError if the zygote has ended.
        """
        message = dumps((kind, list(setup), spec))
        socket.send_fds(self._requests, [namespaces.to_bytes(_NUMBER, "big") + message], passed)

    def child_pid(self) -> int:
        """Pid of the child that the last `fork` asked for.

        Raises: ConnectionError if the zygote has ended; another OSError if it could not fork.
        """
        answer = int.from_bytes(self._requests.recv(_NUMBER), "big", signed=True)
        if answer < 0:
            raise OSError(-answer, os.strerror(-answer), "clone")
        if answer == 0:
            raise ConnectionResetError("the template is gone")
        return answer


def _serve(requests: socket.socket) -> NoReturn:
    message, own = bytearray(MAX_DATAGRAM + _MAX_CALL_BYTES), requests.fileno()
    while True:
        count, passed = receive_into(requests, message, _MAX_PASSED)
        if not count:
            os._exit(0)
        try:
            pid = kernel.fork_into(int.from_bytes(message[:_NUMBER], "big") | kernel.CLONE_PARENT)
        except OSError as error:
            pid = -(error.errno or 1)
        if pid == 0:
            close(own)  # held open, it would hide from the spawner that a template was killed before it answered
            _start_child(memoryview(message)[_NUMBER:count], passed)
        message[:count] = bytes(count)  # the next sandbox must not see the environment of this one
        requests.send(pid.to_bytes(_NUMBER, "big", signed=True))
        for descriptor in passed:
            os.close(descriptor)


def _start_child(message: memoryview, passed: list[int]) -> NoReturn:
    """In a fork of the zygote. Never returns."""
    try:
        number = _FIRST
        for descriptor in passed:
            dup2(descriptor, number, False)
            close(descriptor)
            number += 1
        kind, setup, spec = loads(message)
        _KINDS[kind](setup, spec)
    finally:
        os._exit(1)


def _become_guest(setup: list[Syscall], spec: dict[str, Any]) -> None:
    """Continue as process 1 of a sandbox, and do nothing more until the host sends a request."""
    if read(_GO, 1) != GO:
        return  # the spawner has ended or failed
    control = _FIRST
    try:
        spawner_ended = execute(setup)
        control = _CONTROL
        _check_confined()
    except OSError as error:
        server.refuse(socket.socket(fileno=control), describe_error(error))
    if spawner_ended:
        return
    execute(_WAIT_FOR_REQUEST)
    stream = socket.socket(fileno=_CONTROL)
    if stream.recv(1, socket.MSG_PEEK):
        os.close(boot.SPAWNER)
        memory, changes = boot.MEMORY if spec["counted"] else None, boot.CHANGES if spec["layers"] else -1
        server.serve(stream, spec, memory, changes, boot.OOM_SCORE)


def _build_layer(setup: list[Syscall], _: dict[str, Any]) -> None:
    """Unpack an archive into a layer, and tell the spawner how many bytes it takes."""
    result_pipe = boot.RECEIVED + 2
    try:
        if read(_GO, 1) != GO:
            return
        spawner_ended = execute(setup)
        result_pipe = boot.MEMORY[0]
        _check_confined()
        if spawner_ended:
            return
        os.close(boot.SPAWNER)
        os.lseek(boot.CONTROL, 0, os.SEEK_SET)
        with open(boot.CONTROL, "rb") as source:
            used = archive.unpack(source, as_layer=True)
        os.write(result_pipe, str(used).encode())
        os._exit(0)
    except OSError as error:
        os.write(result_pipe, describe_error(error).encode())
    except ValueError as error:
        os.write(result_pipe, str(error).encode()[:2000])


def _check_confined() -> None:
    """Check that only the sandbox's user id is left, and that no process is above this one."""
    if 0 in getresuid() or getppid() != 0:
        raise PermissionError(f"still user {getresuid()}, parent {getppid()}: no code is run")


_KINDS: dict[str, Callable[[list[Syscall], dict[str, Any]], None]] = {
    "guest": _become_guest,
    "layer": _build_layer,
}


def describe_error(error: OSError) -> str:
    return f"{error.strerror or error}" + (f" at {error.filename2 or error.filename}" if error.filename else "")
