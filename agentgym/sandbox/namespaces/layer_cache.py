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
from typing import Any

from agentgym.sandbox.contract import Layer
from agentgym.sandbox.host.link import in_memory
from agentgym.sandbox.namespaces.spawner import SpawnerProcess

_BUILD_S = 60.0
_BUSY_S = 0.005
_BUILDER_BYTES = 256 * 2**20  # address space of a builder, besides what it starts with


def keys_of(layers: Sequence[Layer]) -> list[str]:
    """What a spawner calls each layer: by everything from the lowest up to it, whose user id it shares."""
    keys, total = [], hashlib.sha256()
    for layer in layers:
        total.update(layer.digest.encode())
        keys.append(total.hexdigest())
    return keys


class LayerCache:
    """Orders layers from spawners, each at most once at a time, whichever event loops ask for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[tuple[int, str], Future[str | None]] = {}

    async def build_missing(self, spawner: SpawnerProcess, layers: Sequence[Layer], missing: Sequence[str]) -> str:
        """Have layers made of a stack that a spawner does not have. Returns: why that cannot be, or nothing."""
        parent = ""
        for key, layer in zip(keys_of(layers), layers, strict=True):
            if key in missing:
                reason = await self._build_once(spawner, key, parent, layer.data)
                if reason:
                    return reason
            parent = key
        return ""

    async def _build_once(self, spawner: SpawnerProcess, key: str, parent: str, data: bytes) -> str:
        mine: Future[str | None] = Future()
        while True:
            with self._lock:
                others = self._under_way.setdefault((spawner.pid, key), mine)
            if others is mine:
                break
            reason = await asyncio.wrap_future(_watched(others))
            if reason is not None:  # else whoever had it made was cancelled
                return reason
        reason = None
        try:
            reason = await _build_layer(spawner, key, parent, data)
            return reason
        finally:
            with self._lock:
                del self._under_way[spawner.pid, key]
            mine.set_result(reason)


def _watched(others: Future[str | None]) -> Future[str | None]:
    """A future of one's own, so that being cancelled does not cancel the one that all wait for."""
    own: Future[str | None] = Future()

    def done(finished: Future[str | None]) -> None:
        if own.set_running_or_notify_cancel():
            own.set_result(finished.result())

    others.add_done_callback(done)
    return own


async def _build_layer(spawner: SpawnerProcess, key: str, parent: str, data: bytes) -> str:
    """Have one layer made. Returns: why that cannot be, or nothing. Raises: ConnectionError if the spawner is gone."""
    request = {
        "layer": key, "parent": parent, "size": len(data) + len(data) // 4 + 65_536, "disk": len(data) + 4096,
        "open_files": 64, "processes": 1, "address_space": _BUILDER_BYTES,
    }  # fmt: skip
    archive = in_memory(data)
    try:
        async with asyncio.timeout(_BUILD_S):
            while True:
                kind, text = await _ask_for_layer(spawner, request, archive)
                if kind != "busy":
                    return "" if kind == "layer" else text
                await asyncio.sleep(_BUSY_S)  # the builder of one who gave up is about to end
    except TimeoutError:
        return f"no layer within {_BUILD_S:g} s"
    except ConnectionError:
        raise
    except OSError as error:
        return f"no layer: {error.strerror}"
    finally:
        os.close(archive)


async def _ask_for_layer(spawner: SpawnerProcess, request: dict[str, Any], archive: int) -> tuple[str, str]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        ours.setblocking(False)
        with theirs:
            await spawner.send_request(request, archive, theirs.fileno())
        with contextlib.suppress(OSError):
            said = await asyncio.get_running_loop().sock_recv(ours, 65_536)
            if said:
                answer = json.loads(said)
                return answer["kind"], answer["text"]
    raise ConnectionError("the spawner is gone")
