"""The rule for submissions that cannot be judged: the agent has failed, unless a control submission fails too.

Environments and judges read a submission with `read_submission` and run it with `judge_submission`. Nothing else
decides whose fault a failure is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentgym.errors import AgentGymError, HostOverloaded, JudgeError, SandboxError

V = TypeVar("V")
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, EOFError, OverflowError, RecursionError, MemoryError)


def read_submission(read: Callable[[], V]) -> V | None:
    """Return the submission as parsed by `read`; None, which means no submission, if it cannot be parsed.

    Args:
        read: parses the submission alone. The task's own data is checked elsewhere, because its faults are ours.
    """
    try:
        return read()
    except _UNREADABLE:
        return None


async def judge_submission(
    attempt: Callable[[], Awaitable[V]],
    control: Callable[[], Awaitable[object]],
    failed: V,
    *,
    errors: tuple[type[Exception], ...] = (SandboxError, OSError, ValueError),
) -> V:
    """Return the verdict of an attempt, retried once; return `failed` if both attempts fail but the control succeeds.

    If sandboxes failed, a third attempt after the control must fail too.

    Args:
        attempt: judges the submission, in a new sandbox for example.
        control: judges something harmless in the same way.
        failed: the verdict on a submission that cannot be judged.
        errors: the errors that count as a failed attempt or control. Other errors are raised at once, and so are
            HostOverloaded, which no submission causes, and agentgym errors other than SandboxError.
    Raises: JudgeError if the control fails too.
    """
    failures = []
    for _ in range(2):  # the first failure may have been transient
        try:
            return await attempt()
        except errors as error:
            _raise_if_not_the_agents(error)
            failures.append(error)
    try:
        await control()
    except errors as fault:
        _raise_if_not_the_agents(fault)
        raise JudgeError(
            "The judge failed on a harmless control submission too, so the agent's submission cannot be judged: "
            f"{fault}"
        ) from failures[-1]
    if isinstance(failures[-1], SandboxError):  # the machine may have ended both sandboxes, and works now
        try:
            return await attempt()
        except errors as error:
            _raise_if_not_the_agents(error)
    return failed


def _raise_if_not_the_agents(error: Exception) -> None:
    """Raise the error if it reports a fault of the task, the reward or the machine that no submission causes."""
    if isinstance(error, HostOverloaded) or (isinstance(error, AgentGymError) and not isinstance(error, SandboxError)):
        raise error
