"""The files of a sandbox, out of it and into another: a pipe out, a file in memory back."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from agentgym.errors import SandboxError
from agentgym.sandbox.contract import Snapshot
from agentgym.sandbox.guest.archive import records
from agentgym.sandbox.link import in_memory
from agentgym.sandbox.machine import Machine


async def receive_files(machine: Machine, backend: str, most: int, timeout_s: float) -> Snapshot:
    """Have the guest stream its files. Raises: SandboxError if they are more than `most` bytes or cannot be read."""
    read, write = os.pipe()
    collected = asyncio.create_task(_collect(read, most))
    try:
        packing = asyncio.create_task(machine.trusted("pack", timeout_s, [write]))
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
        digest = await asyncio.to_thread(content_hash, io.BytesIO(data))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise SandboxError(f"What the sandbox sent as its files is no archive ({error!r:.200}).") from error
    return Snapshot(digest, backend, data)


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


def content_hash(source: BinaryIO) -> str:
    """SHA-256 over names, kinds, modes and contents, but not times. Raises: ValueError for what is no archive."""
    total = hashlib.sha256()
    for record, content in records(source):
        fields = [record[name] for name in ("t", "p", "m")] + [record.get("l"), record.get("n")]
        total.update(json.dumps(fields).encode() + b"\n")
        for piece in content:
            total.update(piece)
    return total.hexdigest()


@contextmanager
def restorable(snapshot: Snapshot) -> Iterator[int]:
    """A descriptor to read a snapshot's bytes from."""
    descriptor = in_memory(snapshot.data)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
