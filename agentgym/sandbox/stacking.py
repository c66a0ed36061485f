"""Having a spawner keep the layers of a snapshot, so that sandboxes are stacked on them rather than filled."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from agentgym.sandbox.contract import Layer
from agentgym.sandbox.link import in_memory
from agentgym.sandbox.spawner import Spawner

_BUILD_S = 60.0
_BUILDER_BYTES = 256 * 2**20  # address space of a builder, besides what it starts with


def keys_of(layers: Sequence[Layer]) -> list[str]:
    """What a spawner calls each layer: by everything from the lowest up to it, whose user id it shares."""
    keys, total = [], hashlib.sha256()
    for layer in layers:
        total.update(layer.digest.encode())
        keys.append(total.hexdigest())
    return keys


class Stacking:
    """Orders layers from spawners, each at most once at a time, whichever event loops ask for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[tuple[int, str], Future[str]] = {}

    async def provide(self, spawner: Spawner, layers: Sequence[Layer], missing: Sequence[str]) -> str:
        """Have layers made of a stack that a spawner does not have. Returns: why that cannot be, or nothing."""
        parent = ""
        for key, layer in zip(keys_of(layers), layers, strict=True):
            if key in missing:
                reason = await self._once(spawner, key, parent, layer.data)
                if reason:
                    return reason
            parent = key
        return ""

    async def _once(self, spawner: Spawner, key: str, parent: str, data: bytes) -> str:
        mine: Future[str] = Future()
        with self._lock:
            others = self._under_way.setdefault((spawner.pid, key), mine)
        if others is not mine:
            return await asyncio.wrap_future(_watched(others))
        reason = "whoever had it made gave up"
        try:
            reason = await _build(spawner, key, parent, data)
        finally:
            with self._lock:
                del self._under_way[spawner.pid, key]
            mine.set_result(reason)
        return reason


def _watched(others: Future[str]) -> Future[str]:
    """A future of one's own, so that being cancelled does not cancel the one that all wait for."""
    own: Future[str] = Future()

    def done(finished: Future[str]) -> None:
        if own.set_running_or_notify_cancel():
            own.set_result(finished.result())

    others.add_done_callback(done)
    return own


async def _build(spawner: Spawner, key: str, parent: str, data: bytes) -> str:
    order = {
        "layer": key, "parent": parent, "size": len(data) + len(data) // 4 + 65_536, "disk": len(data) + 4096,
        "open_files": 64, "processes": 1, "address_space": _BUILDER_BYTES,
    }  # fmt: skip
    archive = in_memory(data)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        try:
            with theirs:
                await spawner.order(order, archive, theirs.fileno())
        finally:
            os.close(archive)
        ours.setblocking(False)
        try:
            async with asyncio.timeout(_BUILD_S):
                said = await asyncio.get_running_loop().sock_recv(ours, 65_536)
        except TimeoutError:
            return f"no layer within {_BUILD_S:g} s"
        except OSError:
            said = b""
    if not said:
        raise ConnectionError("the spawner is gone")
    with contextlib.suppress(ValueError):
        answer = json.loads(said)
        return "" if answer["kind"] == "layer" else str(answer["text"])
    return "an answer that is none"
