"""What the proxy grants one sandbox, and how its service ends: slow, idle, greedy and endless clients."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_network import CERTIFICATE, NAMES, Client, LocalNetwork, everything, get, service_threads, status

from agentgym.errors import SandboxError
from agentgym.sandbox.network.account import Account, NetworkLimits


@pytest.fixture(scope="module")
def network():
    created = LocalNetwork()
    yield created
    created.close()


@pytest.fixture
def limited(network):
    """Clients with limits of their own."""
    proxies = []

    def make(**limits):
        proxies.append(Client(network.proxy(**limits), NAMES))
        return proxies[-1]

    yield make
    for proxy_started in proxies:
        proxy_started.close()


# Limits


def test_a_slow_request_is_cut_off_and_holds_up_no_other(limited):
    client = limited(header_s=0.2)
    with client.connect() as slow:
        slow.sendall(b"GET http://allowed.test/ HTTP/1.1\r\nX: ")
        assert status(client.say(get("http://allowed.test/"))) == 200
        assert status(everything(slow)) == 408
    with client.connect() as silent:
        assert status(everything(silent)) == 408
    with client.connect() as tunnel_:
        tunnel_.sendall(b"CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n\x16")
        assert everything(tunnel_).endswith(b"\x02\x70")
    assert "TLS hello" in client.last().reason


def test_an_idle_tunnel_and_a_long_one_are_cut_off(limited):
    for limits in ({"idle_s": 0.2}, {"total_s": 0.3}):
        client = limited(**limits)
        context = ssl.create_default_context(cafile=str(CERTIFICATE))
        with client.connect() as stream:
            stream.sendall(b"CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n")
            stream.recv(65_536)
            with (
                context.wrap_socket(stream, server_hostname="allowed.test") as secure,
                contextlib.suppress(ssl.SSLError),
            ):
                assert secure.recv(1) == b""
        assert "too long" in client.last().reason
        assert client.last().allowed


def test_a_body_that_ends_early_is_no_request(limited):
    client = limited()
    with client.connect() as stream:
        stream.sendall(get("http://allowed.test/", "Content-Length: 50", method="POST") + b"12345")
        stream.shutdown(socket.SHUT_WR)
        assert status(everything(stream)) == 400


def test_bytes_and_requests_are_bounded_for_the_sandbox(limited):
    client = limited(transfer_mib=1, requests=4)
    body = get("http://allowed.test/", f"Content-Length: {3 << 20}", method="POST") + bytes(3 << 20)
    assert b"as much data as it may: 1 MiB" in client.say(body)
    assert client.last().bytes_sent <= 1 << 20
    for _ in range(3):
        assert status(client.say(get("http://allowed.test/"))) == 429
    assert b"as many requests as it may: 4" in client.say(get("http://allowed.test/"))
    assert len(client.network.connections) == 4


def test_the_spec_of_a_sandbox_may_grant_more_bytes_than_the_proxy(network):
    body = get("http://allowed.test/", f"Content-Length: {3 << 20}", method="POST") + bytes(3 << 20)
    for transfer_mib, code in ((8, 200), (2, 429)):
        client = Client(network.proxy(transfer_mib=1), NAMES, transfer_mib)
        assert status(client.say(body)) == code
        client.close()


def test_more_connections_than_allowed_wait_their_turn(limited):
    client = limited(connections=2, header_s=0.5)
    holding = [client.connect() for _ in range(3)]
    assert status(client.say(get("http://allowed.test/"))) == 200, "once those before it have had their time"
    assert [status(everything(held)) for held in holding] == [408] * 3
    for held in holding:
        held.close()


def test_a_client_that_sends_single_bytes_is_slowed_down_and_still_served(limited):
    """Each byte would cost the host far more than it costs the one who sends it."""
    client = limited(reads_per_s=20, header_s=60)
    reads = 0

    class Counting(Account):
        async def pace(self, count: int = 1) -> None:
            nonlocal reads
            reads += count
            await super().pace(count)

    client.network._account = Counting(client.proxy.limits)
    request = get("http://allowed.test/", "X: " + "y" * 2000)
    with client.connect() as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request:
            stream.send(bytes([byte]))
        assert status(everything(stream)) == 200
    assert reads < len(request) / 4, "what comes meanwhile is read at once"


def test_a_limit_that_makes_no_sense_is_refused():
    with pytest.raises(SandboxError, match=r"NetworkLimits\.idle_s = 0 is not valid"):
        NetworkLimits(idle_s=0)


# Ends


def test_ending_a_network_ends_its_connections_and_frees_its_address(network):
    before = service_threads()
    client = Client(network.proxy(), NAMES)
    with client.connect() as stream:
        stream.sendall(b"CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n")
        assert status(stream.recv(65_536)) == 200
        client.close()
        assert stream.recv(1) == b""
    client.close()
    with pytest.raises(ConnectionRefusedError):
        client.connect()
    assert service_threads() == before


def test_a_proxy_may_be_used_again_after_its_end(network):
    proxy = network.proxy()
    for _ in range(2):
        client = Client(proxy, NAMES)
        assert status(client.say(get("http://allowed.test/"))) == 200
        client.close()


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_bytes_do_worse_than_a_refusal(limited, network, data):
    """Mutations of a request whose target is not allowed: whatever they say, nothing is dialled but what is."""
    client = limited(header_s=0.1)
    network.dialled.clear()
    sent = bytearray(get("http://evil.test/", "Content-Length: 3", method="POST") + b"abc")
    for _ in range(data.draw(st.integers(0, 5))):
        position = data.draw(st.integers(0, len(sent)))
        sent[position : position + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    answer = client.say(bytes(sent))
    assert answer == b"" or 400 <= status(answer) < 600
    assert network.dialled == []
    client.close()


async def test_networks_are_served_whatever_the_hosts_own_loop_does(limited):
    """A training step blocks the loop of the one who made the sandbox; its transfers go on."""
    client = limited()
    assert asyncio.get_running_loop()
    assert status(client.say(get("http://allowed.test/"))) == 200, "this very test blocks its loop"
