"""The files of a sandbox, out of it and into another: a pipe out, files in memory back, in layers between."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os

from agentgym.errors import SandboxError, SandboxUnavailable
from agentgym.sandbox.contract import Layer, Snapshot
from agentgym.sandbox.host.guest_handle import GuestHandle
from agentgym.sandbox.host.link import in_memory
from agentgym.sandbox.host.trees import changes_of, digest_of, id_of, merged, tree_of
from agentgym.sandbox.limits import SandboxSpec

MOST_LAYERS = 8  # a sandbox is mounted over all of them, and each look-up of a file may pass through all
_SMALL_BYTES = 2**20  # what is larger is looked at in a thread
_UNPACK_S = 60.0
_HEADER_BYTES = 1024  # of a record, on average, names and all
_OUR_FILES = 16


def layer_of(data: bytes) -> Layer:
    """A layer out of an archive. Raises: ValueError if it is none."""
    return Layer(digest_of(changes_of(data)), data)


def snapshot_of(data: bytes, backend: str, below: Snapshot | None = None, *, most_files: int | None = None) -> Snapshot:
    """The snapshot that an archive makes, on top of another one if it holds changes to that.

    Raises: ValueError if it is no archive, or one of more files.
    """
    changes = changes_of(data, most=most_files)
    tree = tree_of(below.entries if below else {}, changes)
    name = id_of(tree)
    if below is not None and name == below.id:
        return below
    layers = (*(below.layers if below else ()), Layer(digest_of(changes), data))
    return Snapshot(name, backend, _flattened(layers), tree)


def _flattened(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Few layers, which take at most half as much again as the files: what upper ones hide still takes room below.

    The lowest, which many snapshots share, is kept for as long as that can be.
    """
    lowest, *upper = layers
    if sum(len(layer.data) for layer in upper) > max(len(lowest.data) // 2, _SMALL_BYTES):
        return (layer_of(merged([layer.data for layer in layers], lowest=True)),)
    if len(layers) > MOST_LAYERS:
        return lowest, layer_of(merged([layer.data for layer in upper], lowest=False))
    return layers


async def receive_files(
    guest: GuestHandle, backend: str, spec: SandboxSpec, timeout_s: float, *, below: Snapshot | None = None
) -> Snapshot:
    """Have the guest stream its files.

    Args:
        spec: bounds what is accepted: a guest that was taken over may send anything.
        below: what the sandbox is stacked on, if it is: then only changes to it travel.
    Raises: SandboxError if they are more than the spec allows, or cannot be read.
    """
    most, most_files = spec.disk_mib * 2**20 + spec.inodes * _HEADER_BYTES + 2**20, spec.inodes + _OUR_FILES
    read, write = os.pipe()
    with contextlib.suppress(OSError):  # an ordinary user may have used up what all pipes of one may hold
        fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, 2**20)
    collected = asyncio.create_task(_collect(read, most))
    try:
        packing = asyncio.create_task(guest.run_operation("pack", timeout_s, [write], changes=below is not None))
        try:
            await asyncio.wait({packing, collected}, return_when=asyncio.FIRST_COMPLETED)
            if collected.done():  # while the pipe is open it ends only by an error, and has the better reason
                await collected
            worked, said = await packing
        finally:
            os.close(write)
            packing.cancel()
            await asyncio.gather(packing, return_exceptions=True)
        if worked:
            data = await asyncio.wait_for(collected, timeout_s)
        if not worked:
            raise SandboxError(f"The sandbox's files could not be read: {said}.")
    finally:
        collected.cancel()
        await asyncio.gather(collected, return_exceptions=True)
        os.close(read)
    try:
        upper = sum(len(layer.data) for layer in below.layers[1:]) if below is not None else 0
        if len(data) + upper > _SMALL_BYTES:
            return await asyncio.to_thread(snapshot_of, data, backend, below, most_files=most_files)
        return snapshot_of(data, backend, below, most_files=most_files)
    except ValueError as error:
        raise SandboxError(f"What the sandbox sent as its files is no archive ({error!s:.200}).") from error


async def _collect(read: int, most: int) -> bytes:
    """Everything from a pipe. Raises: SandboxError past a bound."""
    os.set_blocking(read, False)
    loop, data = asyncio.get_running_loop(), bytearray()
    while True:
        try:
            piece = os.read(read, 1 << 20)
        except BlockingIOError:
            ready = asyncio.Event()
            loop.add_reader(read, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(read)
            continue
        if not piece:
            return bytes(data)
        data += piece
        if len(data) > most:
            raise SandboxError(f"The sandbox's files are more than {most} bytes: too many to keep.")


async def restore(guest: GuestHandle, snapshot: Snapshot) -> None:
    """Have the guest of a fresh sandbox unpack a snapshot, layer by layer: works on every backend.

    Raises: SandboxUnavailable if the files do not fit, or are none.
    """
    for layer in snapshot.layers:
        descriptor = in_memory(layer.data)
        try:
            worked, said = await guest.run_operation("unpack", _UNPACK_S, [descriptor])
        finally:
            os.close(descriptor)
        if not worked:
            raise SandboxUnavailable(
                f"The files of snapshot {snapshot.id[:12]} cannot be restored ({said}). "
                "If they do not fit, give the spec more disk_mib or inodes."
            )
