"""What the lines of a channel's process cost the host."""

from __future__ import annotations

import asyncio
import os
import socket
from types import SimpleNamespace

import pytest

from agentgym.errors import SandboxDied
from agentgym.sandbox.host.channel import LineChannel


class CountingBuffer(bytearray):
    """Counts the bytes that are searched."""

    searched = 0

    def find(self, mark, start=0):
        self.searched += len(self) - start
        return super().find(mark, start)


@pytest.fixture
def channel():
    """A channel, and the socket of its process."""
    ours, theirs = socket.socketpair()
    errors, errors_write = os.pipe()
    os.set_blocking(errors, False)
    ours.setblocking(False)
    created = LineChannel(SimpleNamespace(dead="there is no guest"), 1, ours, errors)
    with theirs:
        yield created, theirs
    created.drop()
    os.close(errors_write)


async def test_a_long_line_in_small_pieces_is_searched_once(channel):
    lines, process = channel
    lines._buffer = buffer = CountingBuffer()
    answer = asyncio.create_task(lines.request("go"))
    for _ in range(200):
        process.send(b" " * 100)
        await asyncio.sleep(0)
    process.send(b"1\n")
    assert await answer == 1
    assert buffer.searched < 2 * 200 * 100


async def test_a_line_that_would_take_many_times_its_length_in_memory_is_refused(channel):
    lines, process = channel
    asyncio.get_running_loop().run_in_executor(None, process.sendall, b"[" + b"[]," * 600_000 + b"0]\n")
    with pytest.raises(SandboxDied, match="more than 1000000 values"):
        await lines.request("go")


async def test_a_line_that_comes_byte_by_byte_wakes_the_host_seldom(channel, monkeypatch):
    lines, process = channel
    loop, reads = asyncio.get_running_loop(), []
    sock_recv = loop.sock_recv
    monkeypatch.setattr(loop, "sock_recv", lambda stream, size: reads.append(1) or sock_recv(stream, size))
    answer = asyncio.create_task(lines.request("go"))
    process.setblocking(False)
    for byte in b'"' + b"x" * 3000 + b'"\n':
        await loop.sock_sendall(process, bytes([byte]))
        await asyncio.sleep(0)
    assert await answer == "x" * 3000
    assert len(reads) < 1000


async def test_a_line_nested_deeper_than_code_could_walk_is_refused(channel):
    lines, process = channel
    process.send(b"[" * 900 + b"]" * 900 + b"\n")
    with pytest.raises(SandboxDied, match="100 levels"):
        await lines.request("go")
