"""Attacks by a channel's process, the only program in a sandbox with a socket that is connected to the host."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time

from agentgym import SandboxDied
from agentgym.sandbox import Sandbox

from .check import check_equal, check_not, check_raises, checks_of
from .testbed import Target, dedented

_MIB = 2**20


async def _answer(sandbox: Sandbox, code: str, timeout_s: float = 5) -> object:
    """Return the answer to one request, given by a channel's process that runs this code when it gets the request."""
    await sandbox.write("answer.py", ("import os, socket, sys, time\ninput()\n" + dedented(code)).encode())
    channel = await sandbox.open_channel(["python3", "-S", "answer.py"])
    try:
        return await channel.request(1, timeout_s=timeout_s)
    finally:
        await channel.close()


async def descriptors_sent_to_the_host(target: Target) -> None:
    """Sends descriptors with its answers: the host keeps none of them open."""
    before = len(os.listdir("/proc/self/fd"))
    code = """
        host = socket.socket(fileno=1)
        held = [os.open("/dev/null", os.O_RDONLY) for _ in range(20)]
        for _ in range(10): socket.send_fds(host, [b" "], held)
        socket.send_fds(host, [b"1\\n"], held)
        time.sleep(5)
    """
    with contextlib.suppress(SandboxDied, TimeoutError):  # on backends whose channel output is not a socket
        await _answer(target.sandbox, code)
    grown = len(os.listdir("/proc/self/fd")) - before
    check_not(grown > 8, f"the host holds {grown} more descriptors")


async def answers_in_crumbs(target: Target) -> None:
    """Answers in pieces of 1 or 24 bytes, as fast as it can: the host spends a quarter of a processor at most."""
    for size in (1, 24):
        code = f"""
            until = time.monotonic() + 1.5
            os.write(1, b'"')
            while time.monotonic() < until: os.write(1, b"x" * {size})
        """
        began, spent = time.monotonic(), time.thread_time()
        await check_raises((SandboxDied, TimeoutError), _answer(target.sandbox, code, 4), "an answer without an end")
        share = (time.thread_time() - spent) / (time.monotonic() - began)
        check_not(share > 0.25, f"the host spent {share:.0%} of a processor on pieces of {size} bytes")


async def answers_that_swell(target: Target) -> None:
    """Answers with a few megabytes that, parsed, need a hundred times as much memory: refused before parsing."""
    before = _resident()
    for shape in ("[]", "{}", "0", '""', "[[[]]]"):
        code = f"sys.stdout.write('[' + {shape!r} + {',' + shape!r} * (7_000_000 // {len(shape) + 1}) + ']\\n')"
        await check_raises(SandboxDied, _answer(target.sandbox, code, 15), f"an answer of millions of {shape}")
    grown = (_resident() - before) // _MIB
    check_not(grown > 64, f"the host's memory grew by {grown} MiB")


async def answers_too_deep_to_walk(target: Target) -> None:
    """Answers with lists nested as deep as can be parsed: refused, because no code could process them."""
    for depth in (200, 600, 900, 940, 960, 980, 2000):
        code = f"sys.stdout.write('[' * {depth} + ']' * {depth} + '\\n')"
        await check_raises(SandboxDied, _answer(target.sandbox, code), f"an answer of {depth} levels")


async def last_words_that_steer_a_terminal(target: Target) -> None:
    """Writes escape sequences to its error stream, which an error quotes: none reaches a terminal."""
    code = r"os.write(2, b'\x1b]0;owned\x07\x1b[2J\x9b31m\r\x08 words \xe2\x80\xae'); os._exit(1)"
    error = await check_raises(SandboxDied, _answer(target.sandbox, code), "an answer that never comes")
    control = sorted({letter for letter in str(error) if (ord(letter) < 32 and letter != "\n") or ord(letter) == 127})
    check_not(bool(control) or "\x9b" in str(error), f"the error has {control!r} in it")
    check_equal("words" in str(error), True, "whether it quotes the last words")


async def a_channel_that_hangs_up_half(target: Target) -> None:
    """Shuts one direction of its socket, or sends out-of-band data: its request ends, and the sandbox still works."""
    for what in (
        "socket.socket(fileno=1).shutdown(socket.SHUT_RD); os.write(1, b'1\\n')",
        "socket.socket(fileno=1).shutdown(socket.SHUT_WR)",
        "socket.socket(fileno=1).shutdown(socket.SHUT_RDWR)",
        "host = socket.socket(fileno=1); host.send(b'x', socket.MSG_OOB); host.sendall(b'1\\n')",
        "host = socket.socket(fileno=1); host.setsockopt(1, 8, 1 << 30); host.setblocking(False); host.send(b'1\\n')",
    ):
        async with asyncio.timeout(10):
            with contextlib.suppress(SandboxDied, TimeoutError):
                await _answer(target.sandbox, f"try:\n    {what}\nexcept OSError: pass\ntime.sleep(0.3)", 1.5)
    check_equal((await target.sandbox.run_python("print('well')")).stdout, b"well\n", "a call afterwards")
    await target.idle("after their channels were closed")


def _resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


CHECKS = checks_of(
    "attack",
    "A channel's process",
    descriptors_sent_to_the_host,
    answers_in_crumbs,
    answers_that_swell,
    answers_too_deep_to_walk,
    last_words_that_steer_a_terminal,
    a_channel_that_hangs_up_half,
)
