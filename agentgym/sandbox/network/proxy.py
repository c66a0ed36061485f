"""The thread that serves the networks of all sandboxes of a backend, and one sandbox's share of it.

An event loop of its own, since a sandbox outlives any one of the host's, and agents' transfers must not wait for a
training step. A listening socket comes from a guest that may be hostile and may have kept a copy: what it changes
about the socket (blocking or not) would be felt here. Each socket therefore has a thread of its own that accepts,
so that a guest can hold up none but itself; what has been accepted is the host's alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import struct
import threading
from typing import Literal

from agentgym.errors import SandboxDied, SandboxUnavailable
from agentgym.sandbox.contract import Connection
from agentgym.sandbox.guest.frames import PROXY_ADDRESS, receive
from agentgym.sandbox.host.link import Link
from agentgym.sandbox.network import addresses, exchange
from agentgym.sandbox.network.account import Account, NetworkLimits
from agentgym.sandbox.network.allow_list import AllowList
from agentgym.sandbox.network.loop_thread import LoopThread
from agentgym.threads import in_thread

_LISTEN_S = 10.0
_END_S = 10.0  # of the thread that accepts
_RETRY_S = 0.05
_READS_OF_A_CONNECTION = 10  # what taking one costs the host, beside a read
_TRANSIENT = {errno.EAGAIN, errno.ECONNABORTED, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM,
              errno.EPERM, errno.EPROTO}  # fmt: skip
_NO_LINGER = struct.pack("ii", 0, 0)


class Proxy:
    """Serves any number of sandboxes. Safe from any thread; starts with the first sandbox that has a network."""

    def __init__(
        self, limits: NetworkLimits | None = None, *, resolve: exchange.Resolve = addresses.resolve,
        dial: exchange.Dial = exchange.dial,
    ) -> None:  # fmt: skip
        """`limits`: of each sandbox. `resolve` finds a name's addresses, `dial` connects to one that was checked."""
        self.limits = limits or NetworkLimits()
        self.resolve, self.dial = resolve, dial
        self._lock = threading.Lock()
        self._thread: LoopThread | None = None

    async def attach(self, link: Link, names: tuple[str, ...]) -> SandboxNetwork:
        """Have a guest, in which no agent code has run yet, listen; serve what connects.

        Raises: SandboxUnavailable if the guest cannot; SandboxDied if what it hands over is no such socket.
        """
        ours, theirs = socket.socketpair()
        with ours, theirs:
            header, _ = await link.call({"op": "listen"}, deadline_s=_LISTEN_S, descriptors=[theirs.fileno()])
            if "error" in header:
                raise SandboxUnavailable(
                    f"The sandbox cannot hand its proxy's socket to the host ({header.get('text')!s:.200}). A network "
                    "needs a backend that shares the host's kernel; else use network=False."
                )
            listener = await _received(ours)
        return self.serve(listener, names)

    def serve(self, listener: socket.socket, names: tuple[str, ...]) -> SandboxNetwork:
        """Serve a listening socket, which from now on belongs to the network that is returned."""
        with self._lock:
            if self._thread is None or not self._thread.usable:
                self._thread = LoopThread()
            return SandboxNetwork(self, self._thread, listener, AllowList.parse(names))

    def close(self) -> None:
        """End the thread, and what is still being served. May be called twice; the proxy may be used again."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None and thread.usable:
            thread.end()


class SandboxNetwork:
    """The network of one sandbox."""

    def __init__(self, proxy: Proxy, thread: LoopThread, listener: socket.socket, allow_list: AllowList) -> None:
        self._proxy, self._thread, self._listener, self._allow_list = proxy, thread, listener, allow_list
        self._owner = os.getpid()
        self._account = Account(proxy.limits)
        self._room = threading.Semaphore(proxy.limits.connections)
        self._ending = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._acceptor = threading.Thread(target=self._accept, name="agentgym-network", daemon=True)
        self._acceptor.start()

    @property
    def connections(self) -> tuple[Connection, ...]:
        """Every request so far, in order."""
        return self._account.connections()

    def stop(self) -> None:
        """Begin to end, without waiting. In a forked process it only lets go: the socket is its parent's too."""
        if self._owner != os.getpid():
            self._listener.close()
        elif not self._ending.is_set():
            self._ending.set()
            _shut(self._listener)
            self._thread.soon(self._cancel)

    def close(self) -> None:
        """End every connection and wait for it; takes about a millisecond. May be called twice."""
        self.stop()
        if self._owner == os.getpid():
            self._acceptor.join(_END_S)
            self._thread.wait_for(self._ended)

    def _accept(self) -> None:
        with self._listener:
            while True:
                self._room.acquire()
                client = self._next_client()
                if client is None:
                    return
                if not self._thread.soon(self._begin, client):
                    client.close()
                    return

    def _next_client(self) -> socket.socket | None:
        """Wait for a connection. Returns: None at the end."""
        while not self._ending.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError as error:
                if error.errno not in _TRANSIENT:
                    return None  # shut down, by us or by the guest
                self._ending.wait(_RETRY_S)
                continue
            client.setblocking(False)
            with contextlib.suppress(OSError):  # it may be gone already
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)  # what it inherits is the guest's
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return client
        return None

    # In the proxy's loop

    def _begin(self, client: socket.socket) -> None:
        if self._ending.is_set():
            client.close()
            self._room.release()
            return
        task = asyncio.get_running_loop().create_task(self._serve(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, client: socket.socket) -> None:
        try:
            with client:
                await self._account.pace(_READS_OF_A_CONNECTION)
                async with self._thread.room:
                    proxy = self._proxy
                    await exchange.Exchange(client, self._allow_list, self._account, proxy.resolve, proxy.dial).run()
        finally:
            self._room.release()

    def _cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    async def _ended(self) -> None:
        self._cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _received(stream: socket.socket) -> socket.socket:
    """The listening socket that a guest has sent. Raises: SandboxDied if it sent anything else."""
    descriptors: list[int] = []
    try:
        stream.setblocking(False)  # it was sent before the guest answered, or it was not
        _, descriptors = receive(stream, 1, 1)
        received = socket.socket(fileno=descriptors[0])
    except (OSError, IndexError) as error:
        for descriptor in descriptors:
            await in_thread(os.close, descriptor)  # whatever it is, closing it may take its time
        raise SandboxDied("The sandbox handed over no socket for its network. It is not trusted any more.") from error
    kind = (received.family, received.proto, received.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    if kind != (socket.AF_INET, socket.IPPROTO_TCP, 1) or received.getsockname() != PROXY_ADDRESS:
        await in_thread(received.close)
        raise SandboxDied(f"The sandbox handed over a socket that is not at {PROXY_ADDRESS}: not trusted any more.")
    received.setblocking(True)
    return received


def _shut(listener: socket.socket) -> None:
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts; closing would not


def environment_for(names: Literal[False] | tuple[str, ...]) -> dict[str, str]:
    """What tells programs of the proxy. Addresses that the list names are the host's, so they go through it too."""
    if not names:
        return {}
    host, port = PROXY_ADDRESS
    listed = {rule.host for rule in AllowList.parse(names).entries}
    said = {f"{scheme}_proxy": f"http://{host}:{port}" for scheme in ("http", "https", "all")}
    said["no_proxy"] = ",".join(name for name in ("localhost", "127.0.0.1", "::1") if name not in listed)
    return said | {name.upper(): value for name, value in said.items()}
