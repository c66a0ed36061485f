"""Calls over a connection: each is answered once or lost, and nothing is unpickled for who does not know the key."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("ray", reason="needs Ray: make setup-cluster")

from agentgym import Call, Message, Result, Task, Trajectory, Turn
from agentgym.cluster.call_frames import CallReader, Pickled, frame, value_of
from agentgym.cluster.call_stream import CallServer, CallStream, connect
from agentgym.errors import NodeFailed, NodeLost
from agentgym.messages import ResultStatus, StopReason
from agentgym.policy import Reply, Request
from agentgym.trajectory import Provenance

KEY = bytes(range(32))
ENDED = r"its process has ended|its connection broke"


class Target:
    """What a node offers."""

    def __init__(self) -> None:
        self.began: list[object] = []
        self.may_go_on = asyncio.Event()

    async def double(self, value):
        self.began.append(value)
        return 2 * value

    async def wait(self, value):
        self.began.append(value)
        await self.may_go_on.wait()
        return value

    async def fail(self):
        raise KeyError("no such thing")


@asynccontextmanager
async def opened(target: Target, key: bytes = KEY) -> AsyncIterator[tuple[CallStream, int]]:
    """A stream to a server of the target, and the server's port."""
    server = CallServer(target, KEY)
    port = await server.listen("127.0.0.1")
    stream = CallStream(partial(connect, "127.0.0.1", port, key))
    try:
        yield stream, port
    finally:
        stream.close()
        assert server._server is not None
        server._server.close()
        await asyncio.sleep(0.01)  # in which the connection closes


def answer(stream: CallStream, *call):
    return asyncio.wrap_future(stream.call(*call))


async def test_calls_are_answered_in_whatever_order_they_end_also_those_made_before_the_connection():
    target = Target()
    async with opened(target) as (stream, _):
        slow, quick = answer(stream, "wait", b"a" * 3_000_000), answer(stream, "double", "b")
        assert await quick == "bb"
        assert not slow.done()
        target.may_go_on.set()
        assert await slow == b"a" * 3_000_000
        with pytest.raises(NodeFailed, match="KeyError: 'no such thing'"):
            await answer(stream, "fail")
        with pytest.raises(TypeError, match="pickle"):
            stream.call("double", asyncio.get_running_loop())
        assert await answer(stream, "double", 4) == 8


async def test_a_call_whose_connection_ends_is_lost_and_not_sent_again():
    target, writers = Target(), []

    async def serve(reader, writer):
        writers.append(writer)
        await CallServer(target, KEY)._serve(reader, writer)

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        stream = CallStream(partial(connect, "127.0.0.1", port, KEY))
        call = answer(stream, "wait", "once")
        assert await answer(stream, "double", 1) == 2
        writers[0].transport.abort()  # as where its process is killed
        for lost in (call, answer(stream, "double", 2)):
            with pytest.raises(NodeLost, match=ENDED):
                await lost
        with pytest.raises(NodeLost, match=ENDED):
            await answer(stream, "double", 3)
    assert target.began == ["once", 1]
    assert len(writers) == 1


async def test_who_gives_a_node_up_waits_for_no_answer():
    async with opened(Target()) as (stream, _):
        call = answer(stream, "wait", 1)
        stream.close()
        with pytest.raises(NodeLost, match="its connection was closed"):
            await call


async def test_where_nothing_listens_the_error_says_what_the_driver_needs():
    async with opened(Target()) as (_, port):
        pass
    with pytest.raises(NodeLost, match=f"127.0.0.1:{port} .*Open every port of the nodes to the driver"):
        await answer(CallStream(partial(connect, "127.0.0.1", port, KEY)), "double", 1)


class Trap:
    """Makes a file where it is unpickled."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


async def test_nothing_is_unpickled_for_who_does_not_know_the_key(tmp_path):
    file = tmp_path / "made"
    async with opened(Target(), key=bytes(32)) as (stream, port):
        with pytest.raises(NodeLost, match="the other end does not know the cluster's key"):
            await answer(stream, "double", Trap(file))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert len(await reader.readexactly(32)) == 32
        writer.write(bytes(64) + frame(1, ("double", (Trap(file),))))
        assert len(await reader.read()) in (0, 32)  # its proof, and the end
        writer.close()
    assert not file.exists()
    async with opened(Target()) as (stream, _):  # the trap works
        with pytest.raises(NodeFailed):
            await answer(stream, "double", Trap(file))
    assert file.exists()


async def test_a_driver_unpickles_nothing_of_who_has_taken_a_nodes_port(tmp_path):
    file = tmp_path / "made"

    async def impostor(reader, writer):
        writer.write(bytes(64) + frame(0, (Trap(file), "")))
        await reader.read()
        writer.close()

    server = await asyncio.start_server(impostor, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NodeLost, match="the other end does not know the cluster's key"):
            await answer(CallStream(partial(connect, "127.0.0.1", port, KEY)), "double", 1)
    assert not file.exists()


@given(cuts=st.lists(st.integers(1, 60), max_size=30), values=st.lists(st.binary(max_size=80), max_size=6))
def test_frames_are_the_same_however_the_stream_is_cut(cuts, values):
    data, reader, came = b"".join(frame(n, value) for n, value in enumerate(values)), CallReader(), []
    for cut in [*cuts, len(data)]:
        came += [(n, value_of(content)) for n, content in reader.feed(data[:cut])]
        data = data[cut:]
    assert came == list(enumerate(values))


def test_what_travels_most_arrives_as_it_was():
    call, result = Call("add", {"amount": 1}, "c1", "no"), Result("three", ResultStatus.TIMEOUT, "add", "c1")
    message = Message("assistant", "text", (call,), "c0", "add")
    turn = Turn(
        1, message, (call,), (result,), token_ids=[1], logprobs=[-0.5], rewards={"r": 1.0}, usage={"cpu_s": 2.0}
    )
    trajectory = Trajectory("run/t#0", Task("t", "x/y-v1", "Count."), 0, 7)
    trajectory.turns, trajectory.stop_reason = [turn], StopReason.TIME
    trajectory.provenance = Provenance(policy="p", retries=["once"])
    request, reply = Request([message], prefix_ids=[1, 2], episode="e", turn=3), Reply(message, [1], [-0.1])
    for value in (trajectory, request, reply):
        content = frame(0, value)[16:]
        assert value_of(content) == value
        assert len(content) < len(pickle.dumps(value, pickle.HIGHEST_PROTOCOL))  # the short way was taken
    assert value_of(frame(0, [Pickled(pickle.dumps(turn))])[16:]) == [turn]
