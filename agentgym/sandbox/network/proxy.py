"""The proxy thread, which serves the networks of all sandboxes of a backend, and the network of one sandbox.

The thread has its own event loop, because a sandbox outlives the host's event loops, and because agents' transfers must
not wait for a training step. A listening socket comes from a guest that may be hostile and may have kept a copy: if the
guest changes the socket (blocking or not), the change has an effect here. So each socket has its own accepting thread,
and a guest can delay only itself. Accepted connections belong to the host alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Literal, Protocol

from agentgym.errors import SandboxDied, SandboxUnavailable
from agentgym.sandbox.allow_list import AllowList
from agentgym.sandbox.contract import Connection
from agentgym.sandbox.guest.frames import PROXY_ADDRESS, RELAY_ADDRESS, receive
from agentgym.sandbox.link import Link
from agentgym.sandbox.network import addresses, exchange
from agentgym.sandbox.network.account import Account, NetworkLimits
from agentgym.sandbox.network.loop_thread import GivesWay, LoopThread
from agentgym.sandbox.network.relay import RelayedConnection
from agentgym.threads import in_thread

_LISTEN_S = 10.0
_END_S = 10.0  # time for the accepting thread to end
_RETRY_S = 0.05
_READS_OF_A_CONNECTION = 10  # accepting costs the host as much as ten reads
_TRANSIENT = {
    errno.EAGAIN,
    errno.ECONNABORTED,
    errno.EINTR,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOBUFS,
    errno.ENOMEM,
    errno.EPERM,
    errno.EPROTO,
}
_NO_LINGER = struct.pack("ii", 0, 0)


class ServedConnection(GivesWay, Protocol):
    """One accepted connection."""

    async def run(self) -> None:
        """Serve it to its end. Raises nothing; the caller closes the client's socket."""


Serve = Callable[[socket.socket, Account], ServedConnection]


class Proxy:
    """Serves any number of sandboxes. Safe from any thread; starts with the first sandbox that has a network."""

    def __init__(
        self,
        limits: NetworkLimits | None = None,
        *,
        resolve: exchange.Resolve = addresses.resolve,
        dial: exchange.Dial = exchange.dial,
    ) -> None:
        """Create a proxy. `limits` apply to each sandbox separately.

        `resolve` finds the addresses of a name, `dial` connects to a checked address.
        """
        self.limits = limits or NetworkLimits()
        self.resolve, self.dial = resolve, dial
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None

    async def attach(self, link: Link, names: tuple[str, ...], *, transfer_mib: int | None = None) -> SandboxNetwork:
        """Make a guest listen, and serve its connections. Call it before any agent code runs.

        `transfer_mib`: replaces the proxy's limit.

        Raises: SandboxUnavailable if the guest cannot listen; SandboxDied if it does not hand over a listening socket.
        """
        return self.serve(await _handed_over(link, PROXY_ADDRESS), names, transfer_mib=transfer_mib)

    async def relay(self, link: Link, address: tuple[str, int]) -> SandboxNetwork:
        """Make a guest listen at RELAY_ADDRESS, and relay its connections to one address of the host, unread.

        Raises: SandboxUnavailable if the guest cannot listen there; SandboxDied if it hands over no such socket.
        """
        listener = await _handed_over(link, RELAY_ADDRESS)
        return self._network(listener, lambda client, account: RelayedConnection(client, account, address), self.limits)

    def serve(
        self, listener: socket.socket, names: tuple[str, ...], *, transfer_mib: int | None = None
    ) -> SandboxNetwork:
        """Let connections to a listening socket reach the hosts `names` only. The returned network owns the socket."""
        allow_list = AllowList.parse(names)
        return self._network(
            listener,
            lambda client, account: exchange.Exchange(client, allow_list, account, self.resolve, self.dial),
            self.limits if transfer_mib is None else replace(self.limits, transfer_mib=transfer_mib),
        )

    def _network(self, listener: socket.socket, serve: Serve, limits: NetworkLimits) -> SandboxNetwork:
        with self._lock:
            if self._thread is None or not self._thread.usable:
                self._thread = LoopThread()
            return SandboxNetwork(limits, self._thread, listener, serve)

    def close(self) -> None:
        """End the thread and all connections. May be called twice; the proxy may be used again."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None and thread.usable:
            thread.end()


class SandboxNetwork:
    """The connections of one sandbox to one listening socket, each served by an object that `serve` makes."""

    def __init__(self, limits: NetworkLimits, thread: LoopThread, listener: socket.socket, serve: Serve) -> None:
        self._thread, self._listener, self._serve_one = thread, listener, serve
        self._owner = os.getpid()
        self._account = Account(limits, thread.processor)
        self._connection_slots = threading.Semaphore(limits.connections)
        self._ending = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._acceptor = threading.Thread(target=self._accept, name="agentgym-network", daemon=True)
        self._acceptor.start()

    @property
    def connections(self) -> tuple[Connection, ...]:
        """Return every request so far, in order."""
        return self._account.connections()

    def stop(self) -> None:
        """Begin to close, without waiting. In a forked process, only close this process's copy of the socket."""
        if self._owner != os.getpid():
            self._listener.close()
        elif not self._ending.is_set():
            self._ending.set()
            _shut(self._listener)
            self._thread.soon(self._cancel)

    def close(self) -> None:
        """End every connection and wait until all have ended, about a millisecond. May be called twice."""
        self.stop()
        if self._owner == os.getpid():
            self._acceptor.join(_END_S)
            self._thread.wait_for(self._ended)

    def _accept(self) -> None:
        with self._listener:
            while True:
                self._connection_slots.acquire()
                client, admitted = self._next_client(), threading.Event()
                if client is None:
                    return
                if not self._thread.soon(self._begin, client, admitted):
                    client.close()
                    return
                while not admitted.wait(_LISTEN_S):  # at most one accepted connection waits for a slot
                    if not self._thread.usable:
                        return

    def _next_client(self) -> socket.socket | None:
        """Wait for a connection. Returns: None once the network is closed."""
        while not self._ending.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError as error:
                if error.errno not in _TRANSIENT:
                    return None  # shut down by the host or by the guest
                self._ending.wait(_RETRY_S)
                continue
            client.setblocking(False)
            with contextlib.suppress(OSError):  # it may be closed already
                client.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER
                )  # the guest may have set another value, which this socket inherits
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return client
        return None

    # In the proxy's loop

    def _begin(self, client: socket.socket, admitted: threading.Event) -> None:
        if self._ending.is_set():
            client.close()
            self._connection_slots.release()
            admitted.set()
            return
        task = asyncio.get_running_loop().create_task(self._account.metered(partial(self._serve, client, admitted)))
        self._tasks.add(task)

        def end(_: object) -> None:
            self._tasks.discard(task)
            client.close()
            self._connection_slots.release()
            admitted.set()

        task.add_done_callback(end)

    async def _serve(self, client: socket.socket, admitted: threading.Event) -> None:
        await self._account.pace(_READS_OF_A_CONNECTION)
        connection = self._serve_one(client, self._account)
        async with self._thread.connection_slots.hold(self, connection):
            admitted.set()
            await connection.run()

    def _cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    async def _ended(self) -> None:
        self._cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _handed_over(link: Link, address: tuple[str, int]) -> socket.socket:
    """Make a guest listen at an address, and return the socket. Raises: SandboxUnavailable; SandboxDied."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        request = {"op": "listen", "port": address[1]}
        header, _ = await link.call(request, deadline_s=_LISTEN_S, descriptors=[theirs.fileno()])
        if "error" in header:
            raise SandboxUnavailable(
                f"The sandbox cannot pass a socket to the host ({header.get('text')!s:.200}). Use a backend that "
                "shares the host's kernel, or a spec without a network and no agent program."
            )
        return await _received(ours, address)


async def _received(stream: socket.socket, address: tuple[str, int]) -> socket.socket:
    """Return the listening socket that a guest has sent. Raises: SandboxDied if it sent anything else."""
    descriptors: list[int] = []
    try:
        stream.setblocking(False)  # the guest sent the socket before its reply, or never will
        _, descriptors = receive(stream, 1, 1)
        received = socket.socket(fileno=descriptors[0])
    except (OSError, IndexError) as error:
        for descriptor in descriptors:
            await in_thread(os.close, descriptor)  # closing an unknown descriptor may block
        raise SandboxDied(
            "The sandbox passed no socket for its network to the host. It may be hostile, and was closed."
        ) from error
    kind = (received.family, received.proto, received.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    if kind != (socket.AF_INET, socket.IPPROTO_TCP, 1) or received.getsockname() != address:
        await in_thread(received.close)
        raise SandboxDied(
            f"The sandbox passed a socket that is not bound to {address}. It may be hostile, and was closed."
        )
    received.setblocking(True)
    return received


def _shut(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread; closing would not


def environment_for(names: Literal[False] | tuple[str, ...]) -> dict[str, str]:
    """Return the environment variables that make programs use the proxy.

    Addresses on the allow list are in the host's network, so programs reach them through the proxy too.
    """
    if not names:
        return {}
    host, port = PROXY_ADDRESS
    listed = {rule.host for rule in AllowList.parse(names).entries}
    variables = {f"{scheme}_proxy": f"http://{host}:{port}" for scheme in ("http", "https", "all")}
    variables["no_proxy"] = ",".join(name for name in ("localhost", "127.0.0.1", "::1") if name not in listed)
    return variables | {name.upper(): value for name, value in variables.items()}
