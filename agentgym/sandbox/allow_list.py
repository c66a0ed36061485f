"""The allow list of a sandbox's network: its rules, and whether a destination matches one.

Names are compared in one form only: lower case, ASCII, no trailing dot. A spelling that two programs could read
differently (127.1, 0x7f000001, 0177.0.0.1, percent signs, Unicode look-alikes) is refused.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

from agentgym.errors import SandboxError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

DEFAULT_PORTS = (80, 443)
_LISTED = 12  # how many rules an error message lists; a list may have hundreds
_AUTHORITY = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.]{2,45})\]|(?P<name>[^:\[\]]*))(?::(?P<port>[0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")


@dataclass(frozen=True, slots=True)
class Destination:
    """The destination of a request. `host` is in its compared form; `address` is None for a name."""

    host: str
    port: int
    address: Address | None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, authority: str, default_port: int | None = None) -> Destination:
        """Read `name:port`, `1.2.3.4:port` or `[v6]:port`; the port may be left out if there is a default port.

        Raises: ValueError with a message for the agent.
        """
        host, address, port = _parts(authority)
        if port is None and default_port is None:
            raise ValueError(f"{authority!a:.80} has no port: write host:port")
        return cls(host, port or default_port or 0, address)


@dataclass(frozen=True, slots=True)
class Rule:
    """One entry of the list.

    Attributes:
        below: it allows every name below `host`, at any depth, but not `host` itself.
        address: the host, if it is an address.
        leads_to: the only address to which the name may lead, which need not be public; None for any public address.
    """

    text: str
    host: str
    ports: tuple[int, ...]
    below: bool
    address: Address | None
    leads_to: Address | None = None

    @classmethod
    def parse(cls, text: str) -> Rule:
        """Parse a rule. Raises: SandboxError for an invalid one."""
        if not isinstance(text, str):
            raise SandboxError(
                f"SandboxSpec.network contains {text!r}, which is not a text. Write each rule as a text, such as "
                "'example.org:8443'."
            )
        if text == "*":
            return cls(text, "", DEFAULT_PORTS, True, None)
        pattern, has_target, target = text.partition("=")
        below, name = pattern.startswith("*."), pattern.removeprefix("*.")
        bare = f"[{name}]" if name.count(":") > 1 and "[" not in name else name  # ::1, written without brackets
        try:
            host, address, port = _parts(bare)
            if below and address is not None:
                raise ValueError("'*.' selects the names below a domain, and an address has none")
            if host.split(".")[-1] == "localhost":
                raise ValueError("'localhost' would be the sandbox itself; write 127.0.0.1 for the host's own loopback")
            leads_to = _target(target) if has_target else None
            if leads_to is not None and (below or address is not None):
                raise ValueError("only one name can be given an address by '='")
        except ValueError as error:
            raise SandboxError(
                f"SandboxSpec.network contains {text!r}: {error}. A rule is a name (example.org), all names "
                "below one (*.example.org), an address (127.0.0.1), or * for every public name. Write it "
                "without scheme or path. A port may follow (example.org:8443); otherwise ports 80 and 443 are allowed. "
                "A name may be given its address, which need not be public (example.org=10.0.0.5)."
            ) from error
        return cls(text, host, DEFAULT_PORTS if port is None else (port,), below, address, leads_to)

    def allows(self, destination: Destination) -> bool:
        """Return whether the rule names this destination."""
        if destination.port not in self.ports:
            return False
        if not self.below:
            return destination.host == self.host
        return destination.address is None and (not self.host or destination.host.endswith(f".{self.host}"))


@dataclass(frozen=True, slots=True)
class AllowList:
    """All rules of one sandbox."""

    entries: tuple[Rule, ...]

    @classmethod
    def parse(cls, texts: Iterable[str]) -> AllowList:
        """Parse the rules. Raises: SandboxError for an invalid one."""
        return cls(tuple(Rule.parse(text) for text in texts))

    def allow(self, destination: Destination) -> bool:
        return any(rule.allows(destination) for rule in self.entries)

    def addresses(self, destination: Destination) -> list[Address]:
        """Return the addresses that the rules give to a destination; empty if its name may lead to any public one."""
        matching = (rule for rule in self.entries if rule.leads_to is not None and rule.allows(destination))
        return list(dict.fromkeys(rule.leads_to for rule in matching if rule.leads_to is not None))

    def __str__(self) -> str:
        """Return the list, for the agent to read."""
        texts = [rule.text for rule in self.entries]
        more = f" and {len(texts) - _LISTED} more" if len(texts) > _LISTED else ""
        return (", ".join(texts[:_LISTED]) or "nothing at all") + more


def canonical(address: Address) -> Address:
    """Return the IPv4 address of an IPv4-mapped IPv6 address; any other address unchanged."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return address if mapped is None else mapped


def _target(text: str) -> Address:
    """Return the address after the `=` of a rule. Raises: ValueError."""
    _, address = _host(text[1:-1] if text[:1] + text[-1:] == "[]" else text, bracketed=":" in text)
    if address is None:
        raise ValueError(f"{text!a:.80} is not an address")
    return address


def _parts(authority: str) -> tuple[str, Address | None, int | None]:
    """Return the host, its address if it is one, and the port if there is one. Raises: ValueError."""
    match = _AUTHORITY.fullmatch(authority) if authority.isascii() else None
    if match is None:
        raise ValueError(f"{authority!a:.80} is not a host and port in ASCII, such as example.org:443")
    port = int(match["port"]) if match["port"] else None
    if port is not None and not 0 < port < 65_536:
        raise ValueError(f"{authority!a:.80} has no port from 1 to 65535")
    return *_host(match["v6"] or match["name"], bracketed=match["v6"] is not None), port


def _host(text: str, *, bracketed: bool) -> tuple[str, Address | None]:
    """Return a host in its compared form, and its address if it is one. Raises: ValueError."""
    name = text.lower().removesuffix(".")
    labels = name.split(".")
    # a C library takes any text for an address that it can parse as a number
    if bracketed or _NUMBER.fullmatch(labels[-1]):
        try:
            address = canonical(ipaddress.IPv6Address(name) if bracketed else ipaddress.IPv4Address(name))
        except ValueError as error:
            raise ValueError(
                f"{text!a:.80} is not an address in its usual form: write four decimal numbers with dots, or an IPv6 "
                "address in brackets"
            ) from error
        return str(address), address
    if len(name) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError(
            f"{text!a:.80} is not a host name: write letters, digits, - and _ (other letters in their xn-- form)"
        )
    return name, None
