"""One sandbox's network costs the host no more than its share, and starves no other's."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import threading
import time
from types import SimpleNamespace

import pytest
from local_network import NAMES, Client, LocalNetwork, get, status

from agentgym.sandbox.network import account as account_module
from agentgym.sandbox.network import exchange, loop_thread
from agentgym.sandbox.network.account import Account, NetworkLimits, ProcessorShare

CHUNKS = 6_000
CRUMBS = b"1\r\nx\r\n" * CHUNKS + b"0\r\n\r\n"


@pytest.fixture(scope="module")
def network():
    created = LocalNetwork()
    yield created
    created.close()


@pytest.fixture
def clients(network):
    """Networks of several sandboxes on one proxy."""
    with contextlib.ExitStack() as stack:

        def make(count, **limits):
            proxy = network.proxy(**limits)
            stack.callback(proxy.close)
            created = [Client(proxy, NAMES) for _ in range(count)]
            for client in created:
                stack.callback(client.network.close)
            return created

        yield make


@pytest.fixture
def forwarded(monkeypatch):
    """The pieces that the proxy passes on, in either direction."""
    pieces = []
    for name in ("_to_client", "_to_server"):
        original = getattr(exchange.Exchange, name)

        async def counting(self, *arguments, original=original):
            pieces.append(arguments[-1])
            await original(self, *arguments)

        monkeypatch.setattr(exchange.Exchange, name, counting)
    return pieces


@pytest.fixture
def serve(network, monkeypatch):
    """Have the public server read one request to an end, and answer it."""
    with contextlib.ExitStack() as stack:

        def start(end, answer):
            listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            thread = threading.Thread(target=_answer_once, args=(listener, end, answer))
            stack.callback(thread.join)
            monkeypatch.setitem(network.ports, 80, listener.getsockname()[1])
            thread.start()

        yield start


def _answer_once(listener, end, answer):
    with listener.accept()[0] as stream:
        data = b""
        while not data.endswith(end):
            data += stream.recv(65_536)
        stream.sendall(answer)


def test_a_request_in_crumbs_is_passed_on_in_few_pieces(clients, forwarded, serve):
    serve(b"0\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    (client,) = clients(1, processor_share=1.0)
    assert status(client.say(get("http://allowed.test/", "Transfer-Encoding: chunked", method="POST") + CRUMBS)) == 200
    assert client.last().bytes_sent > CHUNKS
    assert len(forwarded) < CHUNKS / 20


def test_an_answer_in_crumbs_is_passed_on_in_few_pieces(clients, forwarded, serve):
    serve(b"\r\n\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + CRUMBS)
    (client,) = clients(1, processor_share=1.0)
    assert client.say(get("http://allowed.test/")).count(b"x") >= CHUNKS
    assert len(forwarded) < CHUNKS / 20


async def test_processor_time_has_to_be_waited_for(monkeypatch):
    """0.05 s of work at a tenth of a core: half a second of waiting, less the 0.2 s that were saved up."""
    readings, waits = itertools.count(), []
    clock = {**vars(time), "thread_time": lambda: next(readings) * 0.05}
    monkeypatch.setattr(account_module, "time", SimpleNamespace(**clock))

    async def sleep(seconds):
        waits.append(seconds)

    account = Account(NetworkLimits(processor_share=0.1))
    monkeypatch.setattr(account_module, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep}))
    await account.metered(lambda: asyncio.sleep(0))
    await account.pace()
    assert waits[-1] == pytest.approx(2 * 0.5 - 0.2, abs=0.1), "two steps: before its wait, and after it"


def test_those_who_use_the_proxy_at_a_time_get_equal_parts():
    share = ProcessorShare()
    assert share.of("a", most=0.1, now=10.0) == 0.1
    parts = [share.of(user, most=0.1, now=10.0 + user / 100) for user in range(29)]
    assert parts[-1] == pytest.approx(0.01), "thirty have used it within a second"
    assert share.of("a", most=0.1, now=12.0) == 0.1, "the others do not use it any more"


def test_silent_connections_of_one_sandbox_hold_up_no_other(clients, monkeypatch):
    """There are 8 slots, and one sandbox may have 16 connections: it opens them, and says nothing."""
    monkeypatch.setattr(loop_thread.resource, "getrlimit", lambda _: (32, 32))
    greedy, modest = clients(2, header_s=60.0)
    with contextlib.ExitStack() as stack:
        for _ in range(16):
            stack.enter_context(greedy.connect())
        for _ in range(50):  # the first may come before the greedy one's connections were taken in
            assert status(modest.say(get("http://allowed.test/"))) == 200, "it did not wait for the end of a silent one"
            if greedy.network.connections:
                break
        assert "make room" in greedy.network.connections[0].reason


def test_who_has_the_fewest_connections_gets_the_next_slot(clients, monkeypatch):
    """Nobody loses a connection to one who would then have more: two sandboxes end with half of the slots each."""
    monkeypatch.setattr(loop_thread.resource, "getrlimit", lambda _: (32, 32))
    first, second = clients(2, header_s=60.0)
    with contextlib.ExitStack() as stack:
        for client in (first, second):
            for _ in range(12):
                stack.enter_context(client.connect()).sendall(b"GET ")
        third = Client(first.proxy, NAMES)
        stack.callback(third.network.close)
        assert status(third.say(get("http://allowed.test/"))) == 200
        ended = [len(client.network.connections) for client in (first, second)]
    assert sum(ended) <= 6, f"{ended} connections were ended"
