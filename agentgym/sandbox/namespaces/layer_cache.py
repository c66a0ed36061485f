"""Makes a spawner keep the layers of a snapshot, so that sandboxes mount them instead of unpacking the files."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import io
import json
import os
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from agentgym.sandbox.contract import Layer
from agentgym.sandbox.guest.archive import records
from agentgym.sandbox.link import in_memory
from agentgym.sandbox.namespaces.spawner import SpawnerProcess

_BUILD_S = 60.0
_BUSY_S = 0.005
_BUILDER_BYTES = 256 * 2**20  # additional address space that a builder may take


def keys_of(layers: Sequence[Layer]) -> list[str]:
    """Return the spawner's key of each layer: a hash of the layer and all layers below it."""
    keys, total = [], hashlib.sha256()
    for layer in layers:
        total.update(layer.digest.encode())
        keys.append(total.hexdigest())
    return keys


class LayerCache:
    """Requests layers from spawners. Several callers that need the same layer, in any event loop, share one request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: dict[tuple[int, str], Future[str | None]] = {}

    async def build_missing(self, spawner: SpawnerProcess, layers: Sequence[Layer], missing: Sequence[str]) -> str:
        """Build the missing layers of a stack. Returns: why that is impossible, or ""."""
        parent = ""
        for key, layer in zip(keys_of(layers), layers, strict=True):
            if key in missing:
                reason = await self._build_once(spawner, key, parent, layer.data)
                if reason:
                    return reason
            parent = key
        return ""

    async def _build_once(self, spawner: SpawnerProcess, key: str, parent: str, data: bytes) -> str:
        own_future: Future[str | None] = Future()
        while True:
            with self._lock:
                shared_future = self._under_way.setdefault((spawner.pid, key), own_future)
            if shared_future is own_future:
                break
            reason = await asyncio.wrap_future(_watched(shared_future))
            if reason is not None:  # None: the task that requested the layer was cancelled
                return reason
        reason = None
        try:
            reason = await _build_layer(spawner, key, parent, data)
            return reason
        finally:
            with self._lock:
                del self._under_way[spawner.pid, key]
            own_future.set_result(reason)


def _watched(shared_future: Future[str | None]) -> Future[str | None]:
    """Return a separate future: cancelling it does not cancel the shared one."""
    own: Future[str | None] = Future()

    def done(finished: Future[str | None]) -> None:
        if own.set_running_or_notify_cancel():
            own.set_result(finished.result())

    shared_future.add_done_callback(done)
    return own


async def _build_layer(spawner: SpawnerProcess, key: str, parent: str, data: bytes) -> str:
    """Make the spawner build one layer.

    Returns: why that is impossible, or "". Raises: ConnectionError if the spawner has ended.
    """
    request = {
        "layer": key,
        "parent": parent,
        "size": len(data) + len(data) // 4 + 65_536,
        "disk": _longest_file(data) + 4096,
        "open_files": 64,
        "processes": 1,
        "address_space": _BUILDER_BYTES,
    }
    archive = in_memory(data)
    try:
        async with asyncio.timeout(_BUILD_S):
            while True:
                kind, text = await _ask_for_layer(spawner, request, archive)
                if kind != "busy":
                    return "" if kind == "layer" else text
                await asyncio.sleep(_BUSY_S)  # the builder of a cancelled request is about to end
    except TimeoutError:
        return f"no layer within {_BUILD_S:g} s"
    except ConnectionError:
        raise
    except OSError as error:
        return f"no layer: {error.strerror}"
    finally:
        os.close(archive)


def _longest_file(data: bytes) -> int:
    """Return an upper bound of the size of any file in an archive. Holes count, although the archive omits them."""
    if b'"s":1' not in data:
        return len(data)
    return max(int(record.get("n", 0)) for _, record, _ in records(io.BytesIO(data)))


async def _ask_for_layer(spawner: SpawnerProcess, request: dict[str, Any], archive: int) -> tuple[str, str]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        ours.setblocking(False)
        with theirs:
            await spawner.send_request(request, archive, theirs.fileno())
        with contextlib.suppress(OSError):
            message = await asyncio.get_running_loop().sock_recv(ours, 65_536)
            if message:
                answer = json.loads(message)
                return answer["kind"], answer["text"]
    raise ConnectionError("the spawner process has ended")
