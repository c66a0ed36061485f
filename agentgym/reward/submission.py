"""The rule for submissions that cannot be judged: the agent has failed, unless a control submission fails as well.

Environments and judges read a submission with `read_submission` and run it with `judge_submission`, and nothing else
decides whose fault it is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentgym.errors import AgentGymError, JudgeError, SandboxError

V = TypeVar("V")
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, EOFError, OverflowError, RecursionError, MemoryError)


def read_submission(read: Callable[[], V]) -> V | None:
    """Return what `read` makes of a submission; None if it can make nothing of it: then nothing was handed in.

    Args:
        read: parses the submission alone. What belongs to the task is checked elsewhere, because its faults are ours.
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
    """Return the result of an attempt to judge; of a second one, if the first fails; `failed`, if only a control works.

    Args:
        attempt: judges the submission, in a new sandbox for example.
        control: judges something harmless in the same way.
        failed: the verdict on a submission that cannot be judged.
        errors: with these an attempt or a control fails. Others are raised at once, and so are errors of agentgym that
            are not a SandboxError.
    Raises: JudgeError if the control fails too.
    """
    try:
        return await attempt()
    except errors as error:
        _raise_if_of_the_task(error)
    try:
        return await attempt()  # the first may have had a bad moment
    except errors as error:
        _raise_if_of_the_task(error)
        try:
            await control()
        except errors as fault:
            _raise_if_of_the_task(fault)
            raise JudgeError(f"Nothing can be judged, not even a control submission: {fault}") from error
        return failed


def _raise_if_of_the_task(error: Exception) -> None:
    """Raise an error that says what is wrong with a task or a reward, which no submission can change."""
    if isinstance(error, AgentGymError) and not isinstance(error, SandboxError):
        raise error
