"""What a rule of SandboxSpec.network means, which addresses are public, and the name in a TLS hello."""

from __future__ import annotations

import contextlib
import ipaddress
import ssl
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.errors import SandboxError
from agentgym.sandbox.allow_list import AllowList, Destination
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.network.addresses import is_own, resolve, why_not_public
from agentgym.sandbox.network.client_hello import read_client_hello


@pytest.mark.parametrize(
    ("rule", "allowed", "refused"),
    [
        (
            "example.org",
            "example.org:443 example.org:80 EXAMPLE.org:80 example.org.:443",
            "example.org:8080 www.example.org:443 example.org.evil.test:443 notexample.org:443",
        ),
        (
            "*.example.org:8443",
            "a.example.org:8443 a.b.example.org:8443",
            "example.org:8443 a.example.org:443 aexample.org:8443",
        ),
        (
            "127.0.0.1:8000",
            "127.0.0.1:8000 [::ffff:127.0.0.1]:8000 [::FFFF:7f00:1]:8000",
            "127.0.0.2:8000 127.0.0.1:80 localhost:8000 [::1]:8000",
        ),
        ("::1", "[::1]:80 [0:0:0:0:0:0:0:1]:443", "[::2]:80 127.0.0.1:80"),
        ("[fd00::5]:9", "[fd00::5]:9 [FD00:0::5]:9", "[fd00::5]:80"),
        ("example.org=10.0.0.5", "example.org:443", "10.0.0.5:443 example.org:22 a.example.org:443"),
        ("*", "anything.test:443", "anything.test:22 127.0.0.1:80 8.8.8.8:443 [::1]:80"),
    ],
)
def test_a_rule_allows_what_it_names_and_nothing_near_it(rule, allowed, refused):
    allow_list = AllowList.parse([rule])
    assert [text for text in allowed.split() if not allow_list.allow(Destination.parse(text))] == []
    assert [text for text in refused.split() if allow_list.allow(Destination.parse(text))] == []


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "*.",
        "**",
        "*.*.org",
        "a.*.org",
        "https://example.org",
        "example.org/path",
        "example.org:0",
        "example.org:",
        "example.org:99999",
        "user@example.org",
        "bücher.de",
        "*.127.0.0.1",
        "*.example.org=10.0.0.5",
        "*=10.0.0.5",
        "127.0.0.1=10.0.0.5",
        "example.org=",
        "example.org=other.test",
        "example.org=10.0.0.0/8",
        "example.org=10.0.0.5:80",
        "localhost=127.0.0.1",
        "10.0.0.0/8",
        "127.1",
        "0x7f000001",
        "a..b",
        ".example.org",
        "-a.org",
        " example.org",
        "example.org\n",
        "[::1",
        "1:2:3",
        "x" * 64 + ".org",
        "localhost:8000",
        "a.localhost",
        None,
        5,
    ],
)
def test_what_is_no_rule_is_refused_when_the_spec_is_written(rule):
    with pytest.raises(SandboxError, match=r"SandboxSpec\.network"):
        SandboxSpec(network=("example.org", rule))


@pytest.mark.parametrize(
    "authority",
    [
        "127.1:80",
        "2130706433:80",
        "0x7f000001:80",
        "0x7f.0.0.1:80",
        "0177.0.0.1:80",
        "127.0.0.01:80",
        "1.2.3.4.5:80",
        "256.0.0.1:80",
        "127.0.0.1",
        "[127.0.0.1]:80",
        "[::1%25eth0]:80",
        "[::1%1]:80",
        "::1:80",
        "a:b:80",
        ":80",
        "",
        "exa mple.org:80",
        "example%2eorg:80",
        "example.org:080000",
        "example.org:+80",
        "example.org:0",
        "a..org:80",
        "example.org..:80",
        "\uff45xample.org:80",
        "\u212aernel.org:80",
        "example\u3002org:80",
        "example.org:\uff18\uff10",
        "x@y:80",
        "example.org\x00.evil.test:80",
        "example.org\r\nHost: evil:80",
        ("a." * 127) + "org:80",
    ],
)
def test_what_two_programs_could_read_in_two_ways_is_no_destination(authority):
    with pytest.raises(ValueError, match=r"port|ASCII|address|host name"):
        Destination.parse(authority)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=40) | st.from_regex(r"[0-9a-fx.:\[\]]{1,40}", fullmatch=True))
def test_a_destination_that_can_be_read_is_read_again_as_itself(text):
    try:
        destination = Destination.parse(text, 80)
    except ValueError:
        return
    assert Destination.parse(str(destination)) == destination
    assert str(destination).isascii()
    assert str(destination) == str(destination).lower()


PRIVATE = """
0.0.0.0 127.0.0.1 127.255.255.254 10.1.2.3 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 169.254.0.1
100.64.0.1 192.0.0.1 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.9 192.88.99.1 224.0.0.1 239.255.255.250 240.0.0.1
255.255.255.255 :: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 ::7f00:1 fe80::1 fec0::1 fc00::1 fd12::1 ff02::1 64:ff9b::7f00:1
64:ff9b::a9fe:a9fe 2002:7f00:1:: 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:db8::1 100::1 3fff::1 4000::1"""


@pytest.mark.parametrize("address", PRIVATE.split())
def test_no_address_but_a_public_one_is_public(address):
    assert why_not_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8"])
def test_public_addresses_are_public(address):
    assert why_not_public(ipaddress.ip_address(address)) == ""


@settings(max_examples=500, deadline=None)
@given(st.ip_addresses())
def test_what_python_knows_to_be_special_is_never_public(address):
    if address.is_private or address.is_multicast or address.is_loopback or address.is_link_local:
        assert why_not_public(address) or address in ipaddress.ip_network("192.0.0.0/24")


def test_an_address_of_this_machine_is_its_own():
    assert is_own(ipaddress.ip_address("127.0.0.1"))
    assert not is_own(ipaddress.ip_address("8.8.8.8"))


async def test_names_are_resolved_as_the_host_does():
    assert ipaddress.ip_address("127.0.0.1") in await resolve("localhost", 80)


@cache
def hello(name: str | None) -> bytes:
    """What a real client sends first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("name", ["example.org", "a" * 60 + ".test", None])
def test_the_server_name_of_a_real_hello_is_read_however_it_is_cut(name):
    message = hello(name)
    assert read_client_hello(message).server_name == name
    assert read_client_hello(message + b"more").server_name == name
    for end in range(len(message)):
        assert read_client_hello(message[:end]) is None


@pytest.mark.parametrize("count", [5, 14])
def test_a_hello_in_many_records_is_one_hello(count):
    message = hello("example.org")[5:]
    size = -(-len(message) // count)
    pieces = [message[start : start + size] for start in range(0, len(message), size)]
    records = b"".join(b"\x16\x03\x01" + len(piece).to_bytes(2, "big") + piece for piece in pieces)
    assert read_client_hello(records).server_name == "example.org"
    assert read_client_hello(records[:-1]) is None


def test_a_hello_in_crumbs_is_refused():
    """Looking at each crumb again whenever one comes would keep the host busy."""
    with pytest.raises(ValueError, match="records"):
        read_client_hello(b"\x16\x03\x01\x00\x01\x01" * 20)


@pytest.mark.parametrize(
    "junk",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x16\x02\x00",
        b"SSH-2.0-x",
        b"\x80\x2e\x01\x03\x01",
        b"\0",
        b"\x16\x03\x01\x00\x00",
        b"\x16\x03\x01\xff\xff",
        b"\x16\x03\x01\x00\x04\x02\0\0\0",
        b"\x16\x03\x01\x00\x04\x01\0\0\0",
        b"\x15\x03\x01\x00\x02\x02\x28",
    ],
)
def test_what_begins_otherwise_is_no_hello(junk):
    with pytest.raises(ValueError, match="TLS"):
        read_client_hello(junk)


def test_a_hello_that_names_two_servers_is_refused():
    message = hello("example.org")
    name = b"\x00\x0bexample.org"
    position = message.index(name)
    entry = b"\x00" + name
    lengths = (2 * len(entry) + 2).to_bytes(2, "big") + (2 * len(entry)).to_bytes(2, "big")  # extension, list
    grown = message[: position - 5] + lengths + entry + entry + message[position + len(name) :]
    with pytest.raises(ValueError, match="a TLS client hello with 2 server names"):
        read_client_hello(lengthened(grown, len(grown) - len(message)))


def lengthened(data: bytes, by: int) -> bytes:
    """The same hello with its outer lengths (record, message, extensions) right again."""
    record, message = int.from_bytes(data[3:5], "big") + by, int.from_bytes(data[6:9], "big") + by
    data = data[:3] + record.to_bytes(2, "big") + data[5:6] + message.to_bytes(3, "big") + data[9:]
    position = 9 + 34
    position += 1 + data[position]
    position += 2 + int.from_bytes(data[position : position + 2], "big")
    position += 1 + data[position]
    extensions = int.from_bytes(data[position : position + 2], "big") + by
    return data[:position] + extensions.to_bytes(2, "big") + data[position + 2 :]


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_hello_is_read_or_refused_and_nothing_else(data):
    message = bytearray(hello("example.org"))
    for _ in range(data.draw(st.integers(1, 4))):
        message[data.draw(st.integers(0, len(message) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        read_client_hello(bytes(message))
