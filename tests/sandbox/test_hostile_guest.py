"""A guest that has been taken over can say what it likes: the host gets SandboxDied, never harm."""

from __future__ import annotations

import asyncio
import json
import socket
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import SandboxDied
from agentgym.sandbox.guest.frames import MAX_HEADER_BYTES, FrameError, FrameReader, encode
from agentgym.sandbox.host.guest_handle import GuestHandle
from agentgym.sandbox.host.guest_sandbox import GuestSandbox
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.link import Link
from agentgym.testing.backends.fake_guest import HONEST


class FakeGuest:
    """A sandbox whose guest is this test: it answers each call with the given bytes."""

    def __init__(self, answer: bytes) -> None:
        control, self.guest = socket.socketpair()
        lifeline, self.spawner = socket.socketpair()
        self.handle = GuestHandle(Link(control), lifeline)
        self.sandbox = GuestSandbox(SandboxSpec(), "test", self.handle, self._make_guest)
        self.guest.sendall(answer)

    async def _make_guest(self) -> GuestHandle:
        raise NotImplementedError

    async def close(self) -> None:
        self.guest.close()
        self.spawner.close()
        await self.sandbox.close()


async def outcome(answer: bytes, call=lambda sandbox: sandbox.run_python("pass")):
    fake_guest = FakeGuest(answer)
    try:
        return await asyncio.wait_for(call(fake_guest.sandbox), 5)
    finally:
        await fake_guest.close()


async def test_an_honest_answer_is_a_result():
    result = await outcome(encode({**HONEST, "out": 2}, b"ab!"))
    assert (result.exit_code, result.stdout, result.stderr) == (0, b"ab", b"!")


@pytest.mark.parametrize(
    "answer",
    [
        b"junk that is no frame at all.....",
        struct.pack(">II", 2**32 - 1, 0),
        struct.pack(">II", 2, 2**31) + b"{}",
        encode({**HONEST, "id": 7}),
        encode({**HONEST, "id": "1"}),
        encode({**HONEST, "id": [1]}),
        struct.pack(">II", 2, 0) + b"[]",
        struct.pack(">II", 30_000, 0) + b"[" * 30_000,
        struct.pack(">II", 9_000, 0) + b"9" * 9_000,
        struct.pack(">II", 3, 0) + b"\xff\xfe{",
        encode(HONEST, b"x" * 200_000),
        *(
            encode({**HONEST, **wrong})
            for wrong in (
                {"exit": "0"},
                {"exit": 10**9},
                {"exit": None},
                {"exit": True},
                {"out": 5},
                {"out": -1},
                {"out": 1e300},
                {"wall": float("nan")},
                {"wall": -1},
                {"wall": "soon"},
                {"cpu": float("inf")},
                {"peak": 2**70},
                {"disk": {}},
            )
        ),
        *(encode({key: value for key, value in HONEST.items() if key != left_out}) for left_out in HONEST),
    ],
)
async def test_an_answer_that_is_none_kills_the_sandbox(answer):
    with pytest.raises(SandboxDied):
        await outcome(answer)


async def test_more_file_content_than_asked_for_kills_the_sandbox():
    with pytest.raises(SandboxDied):
        await outcome(encode({"id": 1, "size": 10}, b"x" * 10), lambda sandbox: sandbox.read("f", max_bytes=5))


@pytest.mark.parametrize("number", [0, -1, 10**6, "13", None])
async def test_an_error_number_that_does_not_exist_kills_the_sandbox(number):
    with pytest.raises(SandboxDied):
        await outcome(encode({"id": 1, "error": "os", "errno": number, "text": "x"}), lambda sandbox: sandbox.read("f"))


async def test_an_error_is_pythons_own_and_its_text_is_bounded():
    answer = encode({"id": 1, "error": "os", "errno": 2, "text": "x" * 10_000})
    with pytest.raises(FileNotFoundError) as caught:
        await outcome(answer, lambda sandbox: sandbox.read("f"))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("field", ["exit", "out", "wall", "id", "oom"])
async def test_a_field_nested_as_deep_as_json_may_be_kills_the_sandbox(field):
    """Just below the limit on recursion, what shows the value goes deeper than what parsed it."""
    for depth in range(880, 1000, 4):
        text = json.dumps({**HONEST, field: "NESTED"}).replace('"NESTED"', "[" * depth + "]" * depth).encode()
        with pytest.raises(SandboxDied):
            await outcome(struct.pack(">II", len(text), 0) + text)


async def test_a_list_of_more_names_than_files_there_may_be_kills_the_sandbox():
    names = b"\0" * 90_000
    with pytest.raises(SandboxDied, match="names"):
        await outcome(encode({"id": 1}, names), lambda sandbox: sandbox.list())


async def test_a_file_that_comes_in_crumbs_ends_at_the_first():
    """An honest guest fills each piece but the last; a hostile one would make the host ask a million times."""
    crumbs = b"".join(encode({"id": number, "size": 10**6}, b"x") for number in range(1, 50))
    assert await outcome(crumbs, lambda sandbox: sandbox.read("f")) == b"x"


async def test_a_reply_that_comes_byte_by_byte_wakes_the_host_seldom(monkeypatch):
    reads, received = [], Link._receive
    monkeypatch.setattr(Link, "_receive", lambda link: (reads.append(1), received(link)))
    fake_guest = FakeGuest(b"")
    calling = asyncio.create_task(fake_guest.sandbox.run_python("pass"))
    await asyncio.sleep(0)
    crumbs = encode({**HONEST, "out": 3000}, b"x" * 3000)
    fake_guest.guest.setblocking(False)
    for at in range(len(crumbs)):
        await asyncio.get_running_loop().sock_sendall(fake_guest.guest, crumbs[at : at + 1])
        await asyncio.sleep(0)
    assert (await calling).stdout == b"x" * 3000
    assert len(reads) < 1000
    await fake_guest.close()


async def test_a_second_answer_to_one_call_kills_the_sandbox():
    fake_guest = FakeGuest(encode(HONEST) + encode(HONEST))
    await fake_guest.sandbox.run_python("pass")
    with pytest.raises(SandboxDied, match="which the host has not sent"):
        await fake_guest.sandbox.run_python("pass")
    await fake_guest.close()


async def test_an_answer_larger_than_its_own_call_asked_for_kills_the_link_though_another_call_asked_for_more():
    control, guest = socket.socketpair()
    link = Link(control)
    small, large = (asyncio.create_task(link.call({"op": "read"}, deadline_s=5, max_blob=most)) for most in (5, 1000))
    await asyncio.sleep(0)
    guest.sendall(encode({"id": 1}, b"x" * 10))
    for calling in (small, large):
        with pytest.raises(SandboxDied, match="10 bytes, where at most 5 were requested"):
            await calling
    assert not link.hung_up, "the guest has not ended, so nothing says why"
    guest.close()


async def test_a_link_says_that_its_guest_has_ended():
    control, guest = socket.socketpair()
    link = Link(control)
    calling = asyncio.create_task(link.call({"op": "run"}, deadline_s=5))
    await asyncio.sleep(0)
    guest.recv(1000)
    guest.close()
    with pytest.raises(SandboxDied, match="its guest process was killed"):
        await calling
    assert link.hung_up


async def test_a_guest_that_hangs_up_is_a_dead_sandbox():
    fake_guest = FakeGuest(b"")
    calling = asyncio.create_task(fake_guest.sandbox.run_python("pass"))
    await asyncio.sleep(0.01)
    fake_guest.spawner.close()  # it has nothing to report
    fake_guest.guest.close()
    with pytest.raises(SandboxDied):
        await calling
    await fake_guest.close()


async def test_a_late_answer_to_a_cancelled_call_is_dropped():
    fake_guest = FakeGuest(b"")
    calling = asyncio.create_task(fake_guest.sandbox.run_python("pass"))
    await asyncio.sleep(0.01)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    fake_guest.guest.sendall(encode(HONEST, b"late") + encode({**HONEST, "id": 2}))
    assert (await fake_guest.sandbox.run_python("pass")).stderr == b""
    await fake_guest.close()


@settings(max_examples=150, deadline=None)
@given(st.lists(st.binary(max_size=60), max_size=4), st.data())
def test_frames_arrive_whole_however_the_stream_is_cut(blobs, data):
    stream = b"".join(encode({"id": number}, blob) for number, blob in enumerate(blobs))
    reader, got = FrameReader(MAX_HEADER_BYTES, 60), []
    while stream:
        cut = data.draw(st.integers(1, len(stream)))
        reader.feed(stream[:cut])
        stream = stream[cut:]
        while (frame := reader.next()) is not None:
            got.append(frame)
    assert got == [({"id": number}, blob) for number, blob in enumerate(blobs)]


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_do_worse_to_the_reader_than_a_frame_error(junk):
    reader = FrameReader(64, 64)
    reader.feed(junk)
    try:
        while (frame := reader.next()) is not None:
            json.dumps(frame[0])
    except FrameError:
        pass
