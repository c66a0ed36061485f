"""The zygote: a fork of the spawner whose only work is to fork, so that every sandbox shares its memory.

Each fork waits in new namespaces for an order, and continues as process 1 of a sandbox (the guest) or as the builder of
a layer. All are children of the spawner. Their orders arrive as lists of system calls, because a fork stops sharing
every memory page on which it touches a Python object.

One fork is requested ahead, so that the next sandbox finds its process ready.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterable, Sequence
from marshal import dumps, loads  # imported as names, so that each call touches one object less
from os import close, dup2, getppid, getresuid
from typing import Any, NoReturn

from . import archive, boot, identity, kernel, server, syscalls
from .frames import MAX_DATAGRAM, receive_into
from .syscalls import Syscall, execute

_FIRST, _CONTROL = boot.RECEIVED, boot.CONTROL
_WAIT_FOR_REQUEST = [syscalls.poll_readable(boot.CONTROL, wait=True)]
_MAX_CALL_BYTES = 1 << 15  # the most bytes of the system calls in one order
_MAX_PASSED = 64
_COMMAND_LINE = b"agentgym-guest"  # shown to sandboxes; the spawner's own names paths and processes of the host
_NUMBER = 8  # bytes of a number: the namespace flags in a request, or the answer


class Newborn:
    """A process in new namespaces that waits to be told what to become. It ends if the connection closes before."""

    def __init__(self, pid: int, orders: socket.socket) -> None:
        self.pid, self._orders = pid, orders

    def become(self, kind: str, spec: dict[str, Any], setup: Iterable[Syscall], passed: Sequence[int]) -> None:
        """Make the process execute `setup` and continue as `kind`.

        Args:
            kind: "guest" or "layer". spec: as the host sent it.
            passed: descriptors that it gets, under the numbers from `boot.RECEIVED` on.
        Raises: OSError.
        """
        socket.send_fds(self._orders, [dumps((kind, list(setup), spec))], passed)

    def close(self) -> None:
        """Close the connection for orders."""
        self._orders.close()


class Zygote:
    """The spawner's handle of the zygote process."""

    def __init__(self, spawner: int, keep: Iterable[int], namespaces: int = boot.NAMESPACES) -> None:
        """Fork the zygote. Raises: OSError.

        Args:
            spawner: a pidfd of this process. keep: descriptors that the system calls name.
            namespaces: the namespaces that are new for each child.
        """
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._namespaces = namespaces.to_bytes(_NUMBER, "big")
        self._orders: socket.socket | None = None  # the socket to the child that was requested
        self.pid = os.fork()
        if self.pid == 0:
            try:
                kernel.die_with_parent()
                if not execute([syscalls.poll_readable(spawner, wait=False)]):
                    orders = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                    execute(syscalls.close_others([theirs.fileno(), orders.fileno(), spawner, *keep]))
                    kernel.show_command_line(_COMMAND_LINE)
                    _serve(theirs, orders)
            finally:
                os._exit(1)
        theirs.close()
        self.process = os.pidfd_open(self.pid)  # becomes readable once the process has ended

    def request_child(self) -> None:
        """Have the zygote fork a child, unless one was requested and not yet taken. Does not wait for it.

        Raises: ConnectionError if the zygote has ended; another OSError.
        """
        if self._orders is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                socket.send_fds(self._requests, [self._namespaces], [theirs.fileno()])
            self._orders = ours

    def take_child(self) -> Newborn:
        """Return the requested child, or another one if that has ended. The caller must wait for it.

        Raises: ConnectionError if the zygote has ended; another OSError if it could not fork.
        """
        while True:
            self.request_child()
            child = self._receive_child()
            if os.waitpid(child.pid, os.WNOHANG)[0] == 0:
                return child
            child.close()

    def end_child(self) -> None:
        """End the child that was requested, if it has not been taken."""
        if self._orders is not None:
            with contextlib.suppress(OSError):  # there is no child, or it ends with the zygote
                child = self._receive_child()
                child.close()
                os.waitpid(child.pid, 0)

    def _receive_child(self) -> Newborn:
        assert self._orders is not None
        orders, self._orders = self._orders, None
        try:
            answer = int.from_bytes(self._requests.recv(_NUMBER), "big", signed=True)
            if answer < 0:
                raise OSError(-answer, os.strerror(-answer), "clone")
            if answer == 0:
                raise ConnectionResetError("the zygote, the process that forks new sandboxes, has ended")
        except OSError:
            orders.close()
            raise
        return Newborn(answer, orders)


def _serve(requests: socket.socket, orders: socket.socket) -> NoReturn:
    """Fork a child for each request. In each child, the descriptor number of `orders` becomes its socket for orders.

    Orders never arrive here: a sandbox must not see the environment of an earlier sandbox.
    """
    request, order = bytearray(_NUMBER), bytearray(MAX_DATAGRAM + _MAX_CALL_BYTES)
    own, childs = requests.fileno(), orders.fileno()
    while True:
        count, passed = receive_into(requests, request, 1)
        if not count:
            os._exit(0)
        dup2(passed[0], childs, False)
        close(passed[0])
        try:
            pid = kernel.fork_into(int.from_bytes(request, "big") | kernel.CLONE_PARENT)
        except OSError as error:
            pid = -(error.errno or 1)
        if pid == 0:
            close(own)  # held open, it would hide from the spawner that a zygote was killed before it answered
            _await_order(orders, order)
        dup2(own, childs, False)  # from here on, only the child holds its end
        requests.send(pid.to_bytes(_NUMBER, "big", signed=True))


def _await_order(orders: socket.socket, order: bytearray) -> NoReturn:
    """Wait for an order in a fork of the zygote, and carry it out. Never returns."""
    try:
        count, passed = receive_into(orders, order, _MAX_PASSED)
        if count:  # else the spawner has ended or failed
            number = _FIRST
            for descriptor in passed:
                dup2(descriptor, number, False)
                close(descriptor)
                number += 1
            kind, setup, spec = loads(memoryview(order)[:count])
            _KINDS[kind](setup, spec)
    finally:
        os._exit(1)


def _become_guest(setup: list[Syscall], spec: dict[str, Any]) -> None:
    """Continue as process 1 of a sandbox, and do nothing more until the host sends a request."""
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
    if start := stream.recv(64, socket.MSG_PEEK):
        os.close(boot.SPAWNER)
        memory = boot.MEMORY if spec["counted"] else None
        changes = boot.CHANGES if spec["layers"] or "root" in spec else -1
        python_first = server.is_python_call(start)
        server.serve(stream, spec, memory, changes, boot.OOM_SCORE, python_first=python_first)


def _build_layer(setup: list[Syscall], _: dict[str, Any]) -> None:
    """Unpack an archive into a layer, and tell the spawner how many bytes it takes."""
    result_pipe = boot.RECEIVED + 1
    try:
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
    """Check that only the sandbox's user id is left, no capability beyond its own, and no process above this one."""
    users, held = getresuid(), kernel.held_capabilities()
    allowed = sum(1 << number for number in boot.ROOT_CAPABILITIES) if identity.is_root_by_name() else 0
    if users != (identity.AGENT,) * 3 or held & ~allowed or getppid() != 0:
        raise PermissionError(
            f"no code is run, because the process still has the users {users}, the capabilities {held:#x} and the "
            f"parent {getppid()}"
        )


_KINDS: dict[str, Callable[[list[Syscall], dict[str, Any]], None]] = {
    "guest": _become_guest,
    "layer": _build_layer,
}


def describe_error(error: OSError) -> str:
    return f"{error.strerror or error}" + (f" at {error.filename2 or error.filename}" if error.filename else "")
