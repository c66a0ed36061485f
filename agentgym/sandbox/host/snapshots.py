"""Transfers a sandbox's files: out through a pipe, and into another sandbox as memory files, layer by layer."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import Callable
from functools import partial

from agentgym.errors import FilesNotCaptured, SandboxError, SandboxUnavailable
from agentgym.sandbox.contract import Layer, Snapshot
from agentgym.sandbox.guest.archive import ROOTS
from agentgym.sandbox.host.guest_handle import GuestHandle
from agentgym.sandbox.host.trees import changes_of, digest_of, id_of, merged, tree_of
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.link import in_memory
from agentgym.sandbox.read_pace import ReadPace, next_piece

MAX_LAYERS = 8  # a sandbox's overlay has all of them, and looking up a file may visit each
_SMALL_BYTES = 2**20  # larger archives are hashed in a thread
_UNPACK_S = 60.0
_LAST_PIECE_S = 5.0  # time to read the rest of the pipe once the guest is done
_HEADER_BYTES = 1024  # allowed bytes per record, on average
_GUEST_FILES = 16
_HOLES = 2  # maximum ratio of the files' sizes, holes included, to the spec's disk: holes are hashed too


def layer_of(data: bytes) -> Layer:
    """Return the layer of an archive. Raises: ValueError if the archive is invalid."""
    return Layer(digest_of(changes_of(data)), data)


def snapshot_of(
    data: bytes,
    backend: str,
    below: Snapshot | None = None,
    *,
    most_files: int | None = None,
    most_bytes: int | None = None,
    over_image: bool = False,
) -> Snapshot:
    """Return the snapshot of an archive. If the archive holds changes to another snapshot, that one is `below`.

    `over_image`: the archives hold changes to an image.

    Raises: ValueError if the archive is invalid; FilesNotCaptured if it holds more than `most_files` files or
        `most_bytes`, holes included.
    """
    changes = changes_of(data, most=most_files, most_bytes=most_bytes)
    tree = tree_of(below.entries if below else {}, changes, over_image=over_image)
    name = id_of(tree)
    if below is not None and name == below.id:
        return below
    layers = (*(below.layers if below else ()), Layer(digest_of(changes), data))
    return Snapshot(name, backend, _flattened(layers, over_image), tree, over_image)


def archive_of(snapshot: Snapshot, keep: Callable[[str, str], bool] = lambda path, kind: True) -> bytes:
    """Return one archive of a snapshot, from which `snapshot_of` makes it again.

    `keep`: called with each path and its kind ("d" for a directory, "f" for a file, "l" or "h" for a link, "w" for what
    was removed). What it refuses is left out; it refuses all below a directory that it refuses.
    """
    return merged([layer.data for layer in snapshot.layers], lowest=not snapshot.over_image, keep=keep)


def _flattened(layers: tuple[Layer, ...], over_image: bool) -> tuple[Layer, ...]:
    """Return the same files in at most 8 layers, whose bytes are at most 1.5 times those of the files.

    Files hidden by upper layers take space too. The lowest layer, which many snapshots share, is kept as long as
    possible.
    """
    lowest, *upper = layers
    if sum(len(layer.data) for layer in upper) > max(len(lowest.data) // 2, _SMALL_BYTES):
        return (layer_of(merged([layer.data for layer in layers], lowest=not over_image)),)
    if len(layers) > MAX_LAYERS:
        return lowest, layer_of(merged([layer.data for layer in upper], lowest=False))
    return layers


async def receive_files(
    guest: GuestHandle, backend: str, spec: SandboxSpec, timeout_s: float, *, below: Snapshot | None = None
) -> Snapshot:
    """Make the guest stream its files.

    Args:
        spec: bounds the accepted data, because a compromised guest may send anything.
        below: the snapshot that the sandbox was created from, if any; then only changes to it are transferred.
    Raises: FilesNotCaptured if the files exceed the spec or cannot be read; SandboxError if the data is not an archive
        or does not arrive in time.
    """
    most, most_files = spec.disk_mib * 2**20 + spec.inodes * _HEADER_BYTES + 2**20, spec.inodes + _GUEST_FILES
    read, write = os.pipe()
    with contextlib.suppress(OSError):  # the user's limit on pipe buffers may be reached
        fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, 2**20)
    collected = asyncio.create_task(_collect(read, most))
    try:
        changes = below is not None or spec.writable_root
        packing = asyncio.create_task(guest.run_operation("pack", timeout_s, [write], changes=changes))
        try:
            await asyncio.wait({packing, collected}, return_when=asyncio.FIRST_COMPLETED)
            if collected.done():  # the pipe is open although the guest has failed: the guest's error says more
                await collected
            succeeded, error_text = await packing
        finally:
            os.close(write)
            packing.cancel()
            await asyncio.gather(packing, return_exceptions=True)
        if not succeeded:
            raise FilesNotCaptured(f"The files of the sandbox cannot be captured: {error_text}.")
        await asyncio.wait({collected}, timeout=_LAST_PIECE_S)
        if not collected.done():
            raise SandboxError(
                "The sandbox reported that it has sent its files, but they did not arrive. It may be hostile, and is "
                "not used any more."
            )
        data = await collected
    finally:
        collected.cancel()
        await asyncio.gather(collected, return_exceptions=True)
        os.close(read)
    try:
        upper = sum(len(layer.data) for layer in below.layers[1:]) if below is not None else 0
        bounds = {"most_files": most_files, "most_bytes": _HOLES * most}
        work = partial(snapshot_of, data, backend, below, **bounds, over_image=spec.writable_root)
        holes = b'"s":1' in data  # the zeros of holes are hashed too
        snapshot = await asyncio.to_thread(work) if holes or len(data) + upper > _SMALL_BYTES else work()
        if not snapshot.entries.keys() >= ROOTS.keys():
            raise ValueError("a directory that every sandbox has is missing")
        return snapshot
    except ValueError as error:
        raise SandboxError(f"The sandbox sent an invalid archive of its files ({error!s:.200}).") from error


async def _collect(read: int, most: int) -> bytes:
    """Read a pipe to its end. Raises: FilesNotCaptured for more than `most` bytes."""
    os.set_blocking(read, False)
    data, pace = bytearray(), ReadPace()
    while True:
        piece = await next_piece(lambda: os.read(read, 1 << 20), read, pace)
        if not piece:
            return bytes(data)
        data += piece
        if len(data) > most:
            raise FilesNotCaptured(
                f"The files of the sandbox have more than {most} bytes, which is more than SandboxSpec.disk_mib allows."
            )


async def restore(guest: GuestHandle, snapshot: Snapshot) -> None:
    """Make the guest of a new sandbox unpack a snapshot, layer by layer. Works on every backend.

    Raises: SandboxUnavailable if the files do not fit.
    """
    for layer in snapshot.layers:
        descriptor = in_memory(layer.data)
        try:
            succeeded, error_text = await guest.run_operation("unpack", _UNPACK_S, [descriptor])
        finally:
            os.close(descriptor)
        if not succeeded:
            raise SandboxUnavailable(
                f"The files of snapshot {snapshot.id[:12]} cannot be restored ({error_text}). "
                "If they do not fit, give the spec more disk_mib or inodes."
            )
