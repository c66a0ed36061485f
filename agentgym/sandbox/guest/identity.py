"""Act with the agent's rights, if the guest has more rights.

In a namespace sandbox guest and agent are the same user, and nothing here has an effect. In a container the guest is
the container's root with hardly any capability, so that the agent can neither signal nor trace it. What the guest does
on behalf of the agent, above all with files, it does with the agent's rights.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

from .root import AGENT_ID

T = TypeVar("T")
AGENT = AGENT_ID

_UNCHANGED = nullcontext()


def is_root_by_name() -> bool:
    """Return whether the agent is user 0 of its sandbox, as with a writable root."""
    return AGENT == 0


def as_agent() -> AbstractContextManager[None]:
    """Act as the agent inside the block. A program started in the block keeps the agent's rights.

    Only the saved ids remain the guest's. They suffice to switch back, and keep the guest out of the agent's reach:
    tracing requires all three ids to match, and a program that is started gets the effective id as its saved one.
    """
    return _UNCHANGED if os.geteuid() == AGENT else _switched()


@contextmanager
def _switched() -> Iterator[None]:
    user, group = os.getuid(), os.getgid()
    os.setresgid(AGENT, AGENT, group)
    os.setresuid(AGENT, AGENT, user)
    try:
        yield
    finally:
        os.setresuid(user, user, user)
        os.setresgid(group, group, group)


def do_as_agent(work: Callable[[], T]) -> T:
    """Run `work` as the agent; this costs almost nothing if guest and agent are the same user."""
    if os.geteuid() == AGENT:
        return work()
    with _switched():
        return work()


def become_agent() -> None:
    """Give up the guest's rights for good; call it in a child. Changing the user id also drops the capabilities."""
    if os.getuid() != AGENT:
        os.setresgid(AGENT, AGENT, AGENT)
        os.setresuid(AGENT, AGENT, AGENT)
