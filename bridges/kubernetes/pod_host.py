"""The process that makes sandboxes in a pod: a SandboxHost that hears its driver on standard input.

    python3 -m agentgym.bridges.kubernetes.pod_host --backend namespaces --lease-s 30 --driver 4711

The kubernetes backend starts it by the exec call of the cluster's API. The process ends at the end of its input, or
when it has received nothing for the length of the lease. All its sandboxes end with it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import queue
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from agentgym.cluster import hosts

from .messages import HostMessageError, MessageReader, decode, encode, pieces

CLOSE_S = 10.0
"""How long closing the sandboxes may take before the process exits anyway."""
_READ_BYTES = 1 << 16


class HostServer:
    """Answers a driver's calls to a host, over two descriptors.

    Args:
        host: the host to call.
        source, sink: descriptors to read from and to write to.
        lease_s: the server ends when it has received nothing for this many seconds.
    """

    def __init__(self, host: hosts.SandboxHost, source: int, sink: int, lease_s: float) -> None:
        self._host, self._source, self._sink, self._lease_s = host, source, sink, lease_s
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self._calls: set[asyncio.Task[None]] = set()
        self._heard_at = time.monotonic()
        self._outgoing: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()

    async def serve(self) -> None:
        """Answer until the driver is gone, then close every sandbox."""
        for work in (self._read, self._write):
            threading.Thread(target=work, daemon=True).start()
        while (left_s := self._heard_at + self._lease_s - time.monotonic()) > 0 and not self._ended.is_set():
            try:
                await asyncio.wait_for(self._ended.wait(), left_s)
            except TimeoutError:
                continue
        with suppress(TimeoutError):
            await asyncio.wait_for(self._host.close(), CLOSE_S)

    def _read(self) -> None:
        """Read calls on a separate thread, which answers heartbeats even if the event loop is busy."""
        reader = MessageReader()
        try:
            while data := os.read(self._source, _READ_BYTES):
                self._heard_at = time.monotonic()
                self._host.beat()
                for number, message in reader.feed(data):
                    method, *arguments = decode(message)
                    if method == "beat":
                        self._outgoing.put((number, encode((None, ""))))
                    else:
                        self._loop.call_soon_threadsafe(self._begin, number, method, arguments)
        except (OSError, HostMessageError) as error:
            print(f"agentgym: the driver cannot be heard: {error}", flush=True)
        self._loop.call_soon_threadsafe(self._ended.set)
        time.sleep(CLOSE_S)
        os._exit(1)

    def _write(self) -> None:
        with suppress(OSError):  # the driver and the input are gone
            while True:
                for piece in pieces(*self._outgoing.get()):
                    rest = memoryview(piece)
                    while rest:
                        rest = rest[os.write(self._sink, rest) :]

    def _begin(self, number: int, method: str, arguments: Sequence[Any]) -> None:
        task = self._loop.create_task(self._answer(number, method, arguments))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _answer(self, number: int, method: str, arguments: Sequence[Any]) -> None:
        try:
            message = encode((await getattr(self._host, method)(*arguments), ""))
        except Exception as error:  # noqa: BLE001  report it to the driver; the other sandboxes keep working
            message = encode((None, hosts.in_short(error)))
        self._outgoing.put((number, message))


async def _serve(backend: str, lease_s: float, driver: int) -> None:
    sink = os.dup(1)
    os.dup2(2, 1)  # keep printed text out of the answers
    await HostServer(hosts.SandboxHost(backend, lease_s, driver), 0, sink, lease_s).serve()
    os._exit(0)  # hanging threads must not keep the process alive


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="namespaces", help="what makes the sandboxes, by registered name")
    parser.add_argument("--lease-s", type=float, default=30.0, help="end after this many seconds without input")
    parser.add_argument("--driver", type=int, default=0, help="pid of the driver, shown as the owner of the sandboxes")
    options = parser.parse_args()
    asyncio.run(_serve(options.backend, options.lease_s, options.driver))


if __name__ == "__main__":
    main()
