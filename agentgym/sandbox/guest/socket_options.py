"""The socket options that a sandbox may set, by level, as the kernel numbers them on x86-64.

Options that are not listed are refused at these levels: memberships and keys, whose removal holds a lock of the whole
machine for minutes if there are many (multicast, anycast, TCP-MD5, TCP-AO); code that the kernel runs for each packet
(filters, BPF, ULP, UDP encapsulation); switches that change how every packet of the machine is handled (timestamps,
GRO, transmit delay, exclusive flow labels); extension headers of IPv6. Options that need a privilege are
the kernel's to refuse. Levels that are not listed belong to sockets that a sandbox cannot make.
"""

from __future__ import annotations

from collections.abc import Iterable

_IP, _SOCKET, _TCP, _UDP, _IPV6, _UDPLITE, _TLS = 0, 1, 6, 17, 41, 136, 282


def _numbers(*parts: int | tuple[int, int]) -> frozenset[int]:
    """Return a set of numbers; a pair stands for the range from its first number to its last."""
    ranges: Iterable[Iterable[int]] = (
        (part,) if isinstance(part, int) else range(part[0], part[1] + 1) for part in parts
    )
    return frozenset(number for numbers in ranges for number in numbers)


ALLOWED: dict[int, frozenset[int]] = {
    # not 35-48 memberships and source filters; 64 and more: tables and routing
    _IP: _numbers((0, 34), (49, 52)),
    # not 26, 27, 44, 50-52, 68 filters; 29, 35, 37, 61, 63-65 timestamps; 46, 69, 70 busy polling; 60 pinned pages
    _SOCKET: _numbers((0, 25), 28, (30, 34), 36, (38, 43), 45, (47, 49), (53, 59), 62, 66, 67, (71, 77), 83),
    # not 14, 32, 38-43 keys; 19-22, 29 repair; 31 TCP_ULP; 37 TCP_TX_DELAY
    _TCP: _numbers((0, 13), (15, 18), (23, 28), 30, (33, 36), (44, 47)),
    # not 100 UDP_ENCAP; 104 UDP_GRO
    _UDP: _numbers(0, 1, (101, 103)),
    # not 3-6, 54, 55, 57, 59 headers; 20, 21, 27, 28, 42-48 memberships; 32 flow labels; 34, 35 IPsec; 64, 65 tables
    _IPV6: _numbers((0, 2), (7, 19), (22, 26), (29, 31), 33, (36, 41), (49, 53), 56, 58, (60, 63), (66, 72), (74, 78)),
    _UDPLITE: frozenset(),  # the same options as UDP's, of a UDP socket
    _TLS: frozenset(),
}
