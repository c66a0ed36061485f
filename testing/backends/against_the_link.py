"""Attacks by a guest under an attacker's control: it lies, stalls, floods, ends in mid-reply. See fake_guest.py."""

from __future__ import annotations

import asyncio
import json
import struct
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from agentgym import AgentGymError, SandboxDied
from agentgym.sandbox import Sandbox

from .check import check_equal, check_raises, checks_of
from .fake_guest import HONEST, FakeGuest, fake_guest
from .testbed import Target

_PATIENCE_S = 15.0  # longer than the host itself waits for a guest


async def _answered(
    target: Target, answers: list[bytes], call: Callable[[Sandbox], Awaitable[object]], what: str
) -> None:
    """Check that each answer, given to a separate call, ends the sandbox."""
    for answer in answers:
        async with fake_guest(target) as guest, asyncio.timeout(_PATIENCE_S):
            guest.link.sendall(answer)
            error = await check_raises(SandboxDied, call(guest.sandbox), f"{what} answered by {answer!r:.80}")
            check_equal(len(str(error)) < 2000, True, "the error is bounded")
            await check_raises(SandboxDied, guest.sandbox.exec(["true"]), "the next call to a sandbox that lied")


def encode(header: dict[str, Any], blob: bytes = b"") -> bytes:
    """Return a frame as guest and host write it: two lengths, a header in JSON, and bytes."""
    head = json.dumps(header).encode()
    return struct.pack(">II", len(head), len(blob)) + head + blob


def _python(sandbox: Sandbox) -> Awaitable[object]:
    return sandbox.run_python("pass")


async def frames_that_are_none(target: Target) -> None:
    """Junk, lengths of four gigabytes, headers that are not a JSON object or are nested without end."""
    await _answered(
        target,
        [
            b"junk that is no frame at all.....",
            struct.pack(">II", 2**32 - 1, 0),
            struct.pack(">II", 2, 2**31) + b"{}",
            struct.pack(">II", 2, 0) + b"[]",
            struct.pack(">II", 30_000, 0) + b"[" * 30_000,
            struct.pack(">II", 9_000, 0) + b"9" * 9_000,
            struct.pack(">II", 3, 0) + b"\xff\xfe{",
        ],
        _python,
        "a call",
    )


async def replies_that_lie(target: Target) -> None:
    """Replies whose fields are missing, of the wrong type or out of range, or with more output than was asked for."""
    wrong: list[dict[str, Any]] = [
        {"exit": "0"},
        {"exit": 10**9},
        {"exit": True},
        {"out": 5},
        {"out": -1},
        {"out": 1e300},
        {"wall": float("nan")},
        {"wall": -1},
        {"cpu": float("inf")},
        {"peak": 2**70},
        {"disk": {}},
    ]
    answers = [encode({**HONEST, **fields}) for fields in wrong]
    answers += [encode({key: value for key, value in HONEST.items() if key != left}) for left in ("exit", "out", "cpu")]
    answers.append(encode(HONEST, b"x" * 200_000))
    await _answered(target, answers, _python, "a call")


async def replies_that_nobody_asked_for(target: Target) -> None:
    """Answers to other calls, to no call, and twice to the same call."""
    answers = [encode({**HONEST, "id": number}) for number in (7, "1", [1], None, -1, 2**70, True)]
    await _answered(target, answers[:-1], _python, "a call")
    async with fake_guest(target) as guest, asyncio.timeout(_PATIENCE_S):
        guest.link.sendall(encode(HONEST) + encode(HONEST))
        await guest.sandbox.run_python("pass")
        await check_raises(SandboxDied, guest.sandbox.run_python("pass"), "the call after an answer that came twice")


async def files_that_lie(target: Target) -> None:
    """More content than requested, invalid sizes, unknown error numbers, endless names."""
    await _answered(
        target,
        [
            encode({"id": 1, "size": 10}, b"x" * 10),
            encode({"id": 1, "size": -5}, b"x"),
            encode({"id": 1, "size": "9"}, b"x"),
            *(encode({"id": 1, "error": "os", "errno": number, "text": "x"}) for number in (0, -1, 10**6, "13", None)),
            encode({"id": 1, "error": "os", "errno": 2, "text": {"x": 1}}),
        ],
        lambda sandbox: sandbox.read("f", max_bytes=5),
        "a read",
    )
    async with fake_guest(target) as guest, asyncio.timeout(_PATIENCE_S):
        guest.link.sendall(encode({"id": 1, "error": "os", "errno": 2, "text": "x" * 60_000}))
        error = await check_raises(FileNotFoundError, guest.sandbox.read("f"), "a read with a long error")
        check_equal(len(str(error)) < 1000, True, "the error is bounded")


async def a_guest_that_stalls(target: Target) -> None:
    """Never answers, answers a byte at a time, answers half: the call ends at the host's own deadline."""

    async def trickle(guest: FakeGuest) -> None:
        for byte in encode(HONEST)[:-1]:
            try:
                guest.link.send(bytes([byte]))
            except OSError:
                return
            await asyncio.sleep(0.05)

    async def stall(how: str) -> None:
        async with fake_guest(target) as guest, asyncio.timeout(_PATIENCE_S):
            if how == "half":
                guest.link.sendall(encode(HONEST)[:20])
            trickling = asyncio.create_task(trickle(guest)) if how == "trickle" else None
            await check_raises(
                SandboxDied, guest.sandbox.run_python("pass", timeout_s=0.1), f"a guest that stalls ({how})"
            )
            if trickling:
                trickling.cancel()

    await asyncio.gather(*(stall(how) for how in ("never", "half", "trickle")))


async def a_guest_killed_in_the_middle_of_a_reply(target: Target) -> None:
    """The guest's reply breaks off at any byte while other calls wait: every call raises SandboxDied."""
    frame = encode({**HONEST, "out": 3}, b"abc")

    async def break_off(cut: int) -> None:
        async with fake_guest(target) as guest, asyncio.timeout(_PATIENCE_S):
            calls = [asyncio.create_task(guest.sandbox.run_python("pass")) for _ in range(3)]
            await asyncio.sleep(0)
            guest.link.sendall(frame[:cut])
            await asyncio.sleep(0.005)
            guest.link.close()
            for call in calls:
                await check_raises(SandboxDied, call, f"a call whose reply broke off after {cut} bytes")

    # In parallel, because each waits in vain for the real guest, which still runs, to report its end.
    await asyncio.gather(*(break_off(cut) for cut in (0, 1, 7, 8, 20, len(frame) - 4, len(frame) - 1)))


async def a_guest_that_floods(target: Target) -> None:
    """Sends unrequested data without end: the host stops reading at the first frame."""
    async with fake_guest(target) as guest, asyncio.timeout(_PATIENCE_S):
        guest.link.setblocking(False)
        calling = asyncio.create_task(guest.sandbox.run_python("pass"))
        await asyncio.sleep(0)
        sent, frame = 0, encode({"id": 999, "text": "x" * 60_000})
        while not calling.done() and sent < 200 * 2**20:
            try:
                sent += guest.link.send(frame)
            except BlockingIOError:
                await asyncio.sleep(0)
            except OSError:
                break
        await check_raises(SandboxDied, calling, "a call while the guest floods")
        check_equal(sent < 8 * 2**20, True, f"the host stopped reading early ({sent >> 20} MiB were taken)")


async def a_snapshot_that_lies(target: Target) -> None:
    """The guest streams no files, and reports failure or success: an error, and no empty snapshot."""
    for exit_code, text in ((1, b"no"), (0, b"")):
        async with fake_guest(target) as guest, asyncio.timeout(_PATIENCE_S):
            guest.link.sendall(encode({**HONEST, "exit": exit_code, "out": 0}, text))
            error = await check_raises(AgentGymError, guest.sandbox.snapshot(), "a snapshot without a stream")
            check_equal(text.decode() in str(error), True, "whether it says why")


async def numbers_of_json_that_are_none(target: Target) -> None:
    """NaN, infinities and numbers of thousands of digits in a reply's fields."""
    text = json.dumps(HONEST)
    frames = []
    for number in ("NaN", "Infinity", "-Infinity", "1" * 5000, "1e999", "-0.5"):
        head = text.replace('"wall": 0', f'"wall": {number}').replace('"peak": 0', f'"peak": {number}').encode()
        frames.append(struct.pack(">II", len(head), 0) + head)
    await _answered(target, frames, _python, "a call")


async def headers_nested_as_deep_as_json_may_be(target: Target) -> None:
    """Lists in a field, nested as deep as the parser can read: the reply is still invalid, so the sandbox ends."""
    text = json.dumps({**HONEST, "exit": "NESTED"})
    frames = []
    for depth in (200, 800, 900, 940, 960, 980, 990):
        head = text.replace('"NESTED"', "[" * depth + "]" * depth).encode()
        frames.append(struct.pack(">II", len(head), 0) + head)
    await _answered(target, frames, _python, "a call")


async def a_directory_without_end(target: Target) -> None:
    """Lists more names than the allowed number of files: refused before the names are decoded."""
    async with fake_guest(target) as guest, asyncio.timeout(_PATIENCE_S):
        listing = asyncio.create_task(guest.sandbox.list())
        await asyncio.sleep(0)
        guest.link.setblocking(False)
        await asyncio.get_running_loop().sock_sendall(guest.link, encode({"id": 1}, bytes(4 << 20)))
        await check_raises(SandboxDied, listing, "a list of four million names")


async def a_file_in_crumbs(target: Target) -> None:
    """Sends a large file one byte per reply: the host does not send a million requests."""
    async with fake_guest(target) as guest, asyncio.timeout(_PATIENCE_S):
        guest.link.sendall(b"".join(encode({"id": number, "size": 10**6}, b"x") for number in range(1, 100)))
        check_equal(len(await guest.sandbox.read("f")) <= 1, True, "whether the first crumb was the last")


async def a_reply_in_crumbs(target: Target) -> None:
    """Sends a reply byte by byte, as fast as it can: the host wakes a few hundred times a second at most."""
    async with fake_guest(target) as guest, asyncio.timeout(_PATIENCE_S):
        loop, began, spent = asyncio.get_running_loop(), time.monotonic(), time.thread_time()
        calling = asyncio.create_task(guest.sandbox.run_python("pass", max_output_bytes=1 << 20))
        await asyncio.sleep(0)
        stop = threading.Event()

        def trickle() -> None:
            frame = encode({**HONEST, "out": 1 << 20}, bytes(1 << 20))
            for byte in frame[:-1]:
                if stop.is_set():
                    return
                guest.link.send(bytes([byte]))

        trickling = loop.run_in_executor(None, trickle)
        await asyncio.sleep(1.0)
        share = (time.thread_time() - spent) / (time.monotonic() - began)
        stop.set()
        calling.cancel()
        await asyncio.gather(calling, trickling, return_exceptions=True)
        check_equal(share < 0.25, True, f"the part of a processor that the host spent on it ({share:.0%})")


CHECKS = checks_of(
    "attack",
    "A guest that was taken over",
    frames_that_are_none,
    replies_that_lie,
    replies_that_nobody_asked_for,
    numbers_of_json_that_are_none,
    files_that_lie,
    a_guest_that_stalls,
    a_guest_killed_in_the_middle_of_a_reply,
    a_guest_that_floods,
    headers_nested_as_deep_as_json_may_be,
    a_directory_without_end,
    a_file_in_crumbs,
    a_reply_in_crumbs,
    ("snapshots", a_snapshot_that_lies),
)
