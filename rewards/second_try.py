"""A sandbox that breaks while a submission is judged in it: whose fault is it?"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentgym import SandboxError

V = TypeVar("V")


async def second_try(
    attempt: Callable[[], Awaitable[V]], check_machine: Callable[[Exception], Awaitable[None]], failed: V
) -> V:
    """What an attempt says; if its sandbox broke, another one's: the machine may have had a bad moment.

    Where the second one breaks too and the machine works without the submission, it is the submission's failure.

    Args:
        check_machine: raises JudgeError if sandboxes do not work at all. `failed`: the verdict on the submission.
    """
    try:
        return await attempt()
    except SandboxError:
        try:
            return await attempt()
        except SandboxError as error:
            await check_machine(error)
            return failed
