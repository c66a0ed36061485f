"""Resolves a name to the addresses that a sandbox may reach: public ones, but not this machine's own."""

from __future__ import annotations

import ipaddress
import socket

from agentgym.sandbox.allow_list import Address, canonical
from agentgym.threads import in_thread

# IANA's registries of special-purpose addresses (RFC 6890 and later). `ipaddress.is_global` is not used, because its
# answers differ between Python releases. The first match counts.
_SPECIAL = [
    (ipaddress.ip_network(text), why)
    for text, why in (
        ("169.254.169.254/32", "the metadata service of cloud machines"),
        ("0.0.0.0/8", "an address of this machine"),
        ("127.0.0.0/8", "a loopback address"),
        ("10.0.0.0/8", "a private address"),
        ("172.16.0.0/12", "a private address"),
        ("192.168.0.0/16", "a private address"),
        ("100.64.0.0/10", "an address behind a carrier's translation"),
        ("169.254.0.0/16", "a link-local address"),
        ("192.0.0.0/24", "a reserved address"),
        ("192.0.2.0/24", "a reserved address"),
        ("192.88.99.0/24", "a relay's address"),
        ("198.18.0.0/15", "a reserved address"),
        ("198.51.100.0/24", "a reserved address"),
        ("203.0.113.0/24", "a reserved address"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "a reserved address"),
        ("::/128", "an address of this machine"),
        ("::1/128", "a loopback address"),
        ("fc00::/7", "a private address"),
        ("fe80::/10", "a link-local address"),
        ("ff00::/8", "a multicast address"),
        ("64:ff9b::/96", "an address that stands for another one"),
        ("64:ff9b:1::/48", "an address that stands for another one"),
        ("2001::/23", "an address that may stand for another one"),
        ("2001:db8::/32", "a reserved address"),
        ("2002::/16", "an address that stands for another one"),
        ("3fff::/20", "a reserved address"),
    )
]
_GLOBAL_V6 = ipaddress.ip_network("2000::/3")  # the rest of IPv6 is not allocated


def why_not_public(address: Address) -> str:
    """Return why an address is not public; "" if it is."""
    address = canonical(address)
    for network, why in _SPECIAL:
        if address in network:
            return why
    if address.version == 6 and address not in _GLOBAL_V6:
        return "a reserved address"
    return ""


def is_own(address: Address) -> bool:
    """Return whether a public address is this machine's own, where services that listen on every interface answer.

    Connects a datagram socket, which sends nothing: for its own address, the machine chooses the same source address.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((str(address), 9))
        except OSError:
            return False  # no route to it
        return ipaddress.ip_address(probe.getsockname()[0]) == address


async def resolve(host: str, port: int) -> list[Address]:
    """Return the addresses of a name as `addresses_of`, without blocking the event loop. Raises: OSError."""
    return await in_thread(addresses_of, host, port)


def addresses_of(host: str, port: int) -> list[Address]:
    """Return the addresses of a name, best first, from the host's resolver. Raises: OSError if there are none."""
    records = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = (str(address[0]).partition("%")[0] for _, _, _, _, address in records)
    return list(dict.fromkeys(canonical(ipaddress.ip_address(address)) for address in addresses))
