"""A hostile guest: a check controls the guest's end of a real sandbox's link.

The sandbox is the backend's own, with everything behind it; only the socket to its guest is replaced. From then
on the host reads whatever the check writes.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass

from agentgym.sandbox import Sandbox, replaced_guest

from .check import NotApplicable
from .testbed import Target

HONEST = {
    "id": 1,
    "exit": 0,
    "out": 0,
    "truncated": False,
    "timed_out": False,
    "oom": False,
    "wall": 0,
    "cpu": 0,
    "peak": 0,
    "disk": 0,
}


@dataclass
class FakeGuest:
    """`sandbox`: the sandbox that the host calls. `link`: the other end of its socket, held by the check."""

    sandbox: Sandbox
    link: socket.socket


@contextlib.asynccontextmanager
async def fake_guest(target: Target) -> AsyncIterator[FakeGuest]:
    """Yield a sandbox in which the check takes the part of the guest process.

    Raises: NotApplicable if the backend has no guest process.
    """
    async with target.another() as sandbox, replaced_guest(sandbox) as link:
        if link is None:
            raise NotApplicable(f"a {type(sandbox).__name__} has no guest process that an attacker could replace")
        yield FakeGuest(sandbox, link)
