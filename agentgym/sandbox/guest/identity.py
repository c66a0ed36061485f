"""Whose rights the guest acts with.

In a namespace sandbox guest and agent are one user, and nothing here does anything. In a container the guest is the
container's root, with hardly a capability, so that the agent can neither signal nor trace it; whatever it does for the
agent, to files above all, it does with the agent's rights.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

from .root import AGENT_ID

T = TypeVar("T")
AGENT = AGENT_ID  # whose rights they are

_AS_IT_IS = nullcontext()


def as_agent() -> AbstractContextManager[None]:
    """Act as the agent for a while; a program started meanwhile is the agent's for good.

    Only the saved ids stay the guest's. That is enough to come back, and to remain out of the agent's reach:
    tracing needs all three, and the kernel gives a program that is started the effective one for a saved one.
    """
    return _AS_IT_IS if os.geteuid() == AGENT else _changed()


@contextmanager
def _changed() -> Iterator[None]:
    user, group = os.getuid(), os.getgid()
    os.setresgid(AGENT, AGENT, group)
    os.setresuid(AGENT, AGENT, user)
    try:
        yield
    finally:
        os.setresuid(user, user, user)
        os.setresgid(group, group, group)


def do_as_agent(work: Callable[[], T]) -> T:
    """Do some work `as_agent`, at the least cost where that is nothing to become."""
    if os.geteuid() == AGENT:
        return work()
    with _changed():
        return work()


def become_agent() -> None:
    """In a child of the guest: give up the guest's rights, with no way back. Capabilities go with the user id."""
    if os.getuid() != AGENT:
        os.setresgid(AGENT, AGENT, AGENT)
        os.setresuid(AGENT, AGENT, AGENT)
