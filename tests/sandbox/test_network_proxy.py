"""The proxy against every client it may meet: plain, clumsy and hostile. Real servers, real TLS, invented names."""

from __future__ import annotations

import ipaddress
import ssl

import pytest
from local_network import CERTIFICATE, NAMES, PUBLIC, Client, LocalNetwork, everything, get, status


@pytest.fixture(scope="module")
def network():
    created = LocalNetwork()
    yield created
    created.close()


@pytest.fixture
def client(network):
    created = Client(network.proxy(), NAMES)
    network.dialled.clear()
    yield created
    created.close()


# What works


def test_a_page_comes_through_and_the_server_hears_only_what_is_its_business(client, network):
    headers = ("Proxy-Authorization: secret", "Connection: x-hop", "X-Hop: 1", "X-End: 2", "Accept: */*")
    answer = client.say(get("http://Allowed.TEST./path?q=1", *headers, host="ALLOWED.test"))
    assert (status(answer), answer.endswith(b"GET /path?q=1 with 0 bytes\n")) == (200, True)
    head = network.plain.heads[-1].lower()
    assert head.startswith("get /path?q=1 http/1.1\nhost: allowed.test\n")
    assert "x-end: 2" in head
    assert "secret" not in head
    assert "x-hop" not in head
    assert network.dialled == [f"{PUBLIC}:80"]
    entry = client.last()
    assert (entry.host, entry.port, entry.allowed, entry.reason) == ("allowed.test", 80, True, "")
    assert entry.bytes_sent > 50
    assert entry.bytes_received > 100


@pytest.mark.parametrize(
    "request_",
    [
        get("http://allowed.test/", "Content-Length: 5", method="POST") + b"12345",
        get("http://allowed.test/", "Content-Length: 5", "Expect: 100-continue", method="POST") + b"12345",
    ],
)
def test_a_body_comes_through(client, request_):
    assert client.say(request_).endswith(b"POST / with 5 bytes\n")


def test_a_head_request_and_old_http_and_a_query_without_a_path_work(client):
    assert status(client.say(get("http://allowed.test/", method="HEAD"))) == 200
    assert client.say(b"GET http://allowed.test/a HTTP/1.0\r\n\r\n").endswith(b"GET /a with 0 bytes\n")
    assert client.say(get("http://allowed.test?q")).endswith(b"GET /?q with 0 bytes\n")


def tunnel(client: Client, name: str, *, server_name: str | None, port: int = 443) -> str:
    """What a TLS client gets through a tunnel to `name`."""
    context = ssl.create_default_context(cafile=str(CERTIFICATE))
    if server_name is None:
        context.check_hostname = False
    with client.connect() as stream:
        stream.sendall(f"CONNECT {name}:{port} HTTP/1.1\r\nHost: {name}:{port}\r\n\r\n".encode())
        answer = stream.recv(65_536)
        if status(answer) != 200:
            return answer.decode()
        with context.wrap_socket(stream, server_hostname=server_name) as secure:
            secure.sendall(b"GET /secret HTTP/1.0\r\n\r\n")
            return everything(secure).decode()


def test_tls_passes_through_untouched(client):
    assert tunnel(client, "allowed.test", server_name="allowed.test").endswith("GET /secret with 0 bytes\n")
    assert tunnel(client, "a.allowed.test.", server_name="a.allowed.test").startswith("HTTP/1.1 502")
    assert tunnel(client, "deep.ALLOWED.test", server_name="deep.allowed.test").startswith("HTTP/1.0 200")
    entry = client.last()
    assert (entry.host, entry.port, entry.allowed) == ("deep.allowed.test", 443, True)
    assert entry.bytes_received > 500


def test_an_address_that_a_rule_names_may_be_the_hosts_own(network):
    client = Client(network.proxy(), (f"127.0.0.1:{network.plain.port}", f"127.0.0.1:{network.tls.port}"))
    address = f"127.0.0.1:{network.plain.port}"
    assert status(client.say(get(f"http://{address}/", host=address))) == 200
    assert "200" in tunnel(client, "127.0.0.1", server_name="127.0.0.1", port=network.tls.port)
    client.close()


# What is refused, and how


def test_a_name_with_an_address_of_its_own_leads_there_whatever_the_resolver_says(network):
    """The address is dialled as it stands in the rule, so that a name that moves on takes nobody along."""
    network.dialled.clear()
    client = Client(network.proxy(), ("allowed.test=127.0.0.2", "*.allowed.test"))
    try:
        client.say(get("http://allowed.test/"))
        assert status(client.say(get("http://private.allowed.test/", host="private.allowed.test"))) == 403
        assert status(client.say(get("http://127.0.0.2/", host="127.0.0.2"))) == 403
        assert network.dialled == ["127.0.0.2:80"]
    finally:
        client.close()


@pytest.mark.parametrize(
    ("url", "code", "why"),
    [
        ("http://evil.test/", 403, "evil.test:80 is not on the allow list of this sandbox: allowed.test, *.allo"),
        ("http://allowed.test:8080/", 403, "allowed.test:8080 is not"),
        ("http://127.0.0.1/", 403, "127.0.0.1:80 is not"),
        ("http://localhost:8000/", 403, "localhost:8000 is not"),
        ("http://[::1]/", 403, "is not on the allow list"),
        ("http://169.254.169.254/latest/meta-data/", 403, "169.254.169.254:80 is not"),
        ("http://private.allowed.test/", 403, "10.0.0.7 is a private address"),
        ("http://loop.allowed.test/", 403, "127.0.0.1 is a loopback address"),
        ("http://metadata.allowed.test/", 403, "metadata service"),
        ("http://unknown.allowed.test/", 502, "has no known address: Name or service not known"),
        ("http://127.1/", 400, "is not an address in its usual form"),
        ("http://2130706433/", 400, "not an address"),
        ("http://0x7f000001/", 400, "not an address"),
        ("http://0177.0.0.1/", 400, "not an address"),
        ("http://allowed.test@evil.test/", 400, "without user"),
        ("http://allowed.test\\@evil.test/", 400, "whole URL"),
        ("http://evil.test#allowed.test/", 400, "fragment"),
        ("http://allowed%2etest/", 400, "not a host name"),
        ("http:///path", 400, "not a host name"),
        ("https://allowed.test/", 400, "Send 'GET http://name/path' with the whole URL"),
        ("ftp://allowed.test/", 400, "whole URL"),
        ("/path", 400, "This is the sandbox's proxy"),
        ("*", 400, "proxy"),
        ("http://allowed.test:/", 400, "host and port"),
        ("http://allowed.test:99999/", 400, "port"),
    ],
)
def test_a_refusal_says_why_in_body_status_line_and_record(client, network, url, code, why):
    host = url.removeprefix("http://").partition("/")[0]
    answer = client.say(get(url, host=host if host.isascii() and host else "x"))
    assert status(answer) == code
    assert why in answer.split(b"\r\n")[0].decode()
    assert why in answer.partition(b"\r\n\r\n")[2].decode()
    assert why in client.last().reason
    assert network.dialled == []
    assert client.last().allowed == (code == 502 and why == "never")


def test_of_several_addresses_only_public_ones_are_tried(client, network):
    assert status(client.say(get("http://mixed.allowed.test/", host="mixed.allowed.test"))) == 200
    assert network.dialled == [f"{PUBLIC}:80"]


def test_a_name_that_changes_its_meaning_is_connected_to_as_it_was_checked(client, network):
    """DNS rebinding: the first answer is public, every later one is the host's loopback."""
    answers = iter([[PUBLIC]])
    network.addresses["rebinding.allowed.test"] = [PUBLIC]
    honest = network.resolve

    async def resolve(host: str, port: int):
        return [ipaddress.ip_address(text) for text in next(answers, ["127.0.0.1"])]

    client.proxy.resolve = resolve
    url = get("http://rebinding.allowed.test/", host="rebinding.allowed.test")
    assert status(client.say(url)) == 200
    assert network.dialled == [f"{PUBLIC}:80"]
    assert status(client.say(url)) == 403
    client.proxy.resolve = honest


@pytest.mark.parametrize(
    "request_",
    [
        get("http://allowed.test/", "Content-Length: 5", "Transfer-Encoding: chunked", method="POST") + b"0\r\n\r\n",
        get("http://allowed.test/", "Transfer-Encoding: chunked", "Content-Length: 5", method="POST") + b"0\r\n\r\n",
        get("http://allowed.test/", "Content-Length: 5", "Content-Length: 6", method="POST") + b"12345",
        get("http://allowed.test/", "Transfer-Encoding: chunked, identity", method="POST") + b"0\r\n\r\n",
        get("http://allowed.test/", "Transfer-Encoding : chunked", method="POST") + b"0\r\n\r\n",
        get("http://allowed.test/", "Content-Length: +5", method="POST") + b"12345",
        get("http://allowed.test/", "Content-Length: 0x5", method="POST") + b"12345",
        get("http://allowed.test/", host="evil.test"),
        get("http://allowed.test/", host="allowed.test:8080"),
        get("http://allowed.test/", host="allowed.test, evil.test"),
        get("http://allowed.test/", "Host: evil.test"),
        b"GET http://allowed.test/ HTTP/1.1\r\n\r\n",
        get("http://allowed.test/ HTTP/1.1\r\nX: y\r\nGET http://evil.test/"),
        get("http://allowed.test/a b"),
        get("http://allowed.test/", "X: a\x00b"),
        get("http://allowed.test/", "X\x0b: a"),
        b"GET http://allowed.test/\r\n\r\n",
        b"GET http://allowed.test/ HTTP/2.0\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(400) + b"\r\n\r\n",
        b"\x05\x01\x00\r\n\r\n",
        get("http://allowed.test/", "X: " + "y" * 100_000),
        get("http://allowed.test/", *(f"X{number}: y" for number in range(10_000))),
        b"CONNECT allowed.test HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        b"CONNECT http://allowed.test:443/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n",
        b"CONNECT allowed.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n",
        b"CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\nContent-Length: 5\r\n\r\n12345",
        b"CONNECT allowed.test:443\tHTTP/1.1\r\nHost: allowed.test:443\r\n\r\n",
    ],
)
def test_what_servers_could_read_differently_never_reaches_one(client, network, request_):
    answer = client.say(request_)
    assert 400 <= status(answer) < 600
    assert network.dialled == []
    assert client.last().reason


def test_a_second_request_in_the_same_connection_is_not_read(client, network):
    before = len(network.plain.heads)
    answer = client.say(get("http://allowed.test/1") + get("http://evil.test/2") + get("http://allowed.test/3"))
    assert answer.count(b"HTTP/1.1 ") == 1
    assert len(network.plain.heads) == before + 1
    assert len(client.network.connections) == 1


# Tunnels


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", "not TLS"),
        (b"SSH-2.0-OpenSSH\r\n", "not TLS"),
        (b"\x16\x03\x01\xff\xff" + bytes(100), "record of 65535 bytes"),
        ((b"\x16\x03\x01\x40\x00\x01\xff\xff\xff" + bytes(16_380)) * 4, "hello of more than 32768 bytes"),
    ],
)
def test_a_tunnel_carries_nothing_but_tls(client, network, first, why):
    answer = client.say(b"CONNECT allowed.test:443 HTTP/1.1\r\nHost: allowed.test:443\r\n\r\n", first)
    assert answer.endswith(b"\x15\x03\x01\x00\x02\x02\x70")
    assert why in client.last().reason
    assert client.last().bytes_sent == 0
    assert not client.last().allowed


@pytest.mark.parametrize("server_name", ["other.test", None, "a.allowed.test"])
def test_a_tunnel_to_one_name_does_not_carry_tls_to_another(client, server_name):
    """Domain fronting: the server behind the allowed name would serve another one as well."""
    with pytest.raises((ssl.SSLError, ConnectionResetError), match=r"(?i)name|reset|eof"):
        tunnel(client, "allowed.test", server_name=server_name)
    assert "The TLS client hello asks for" in client.last().reason
    assert (client.last().allowed, client.last().bytes_sent) == (False, 0)


@pytest.mark.parametrize(
    "destination",
    [
        "evil.test:443",
        "127.0.0.1:443",
        "[::ffff:127.0.0.1]:443",
        "2130706433:443",
        "0x7f.1:443",
        "allowed.test:22",
        "private.allowed.test:443",
    ],
)
def test_a_tunnel_to_what_is_not_allowed_is_not_opened(client, network, destination):
    answer = client.say(f"CONNECT {destination} HTTP/1.1\r\nHost: {destination}\r\n\r\n".encode())
    assert status(answer) in (400, 403)
    assert network.dialled == []
