"""Decide whether a sandbox that broke while judging was broken by the submission."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from agentgym import SandboxError

V = TypeVar("V")


async def second_try(
    attempt: Callable[[], Awaitable[V]], check_sandbox: Callable[[Exception], Awaitable[None]], failed: V
) -> V:
    """Return the result of an attempt; if its sandbox broke, the result of a second attempt in a new sandbox.

    If the second sandbox breaks too, but sandboxes work without the submission, the submission has failed.

    Args:
        attempt: judges the submission in a new sandbox. check_sandbox: raises JudgeError if sandboxes do not work.
        failed: the verdict on a submission that breaks its sandbox.
    """
    try:
        return await attempt()
    except SandboxError:
        try:
            return await attempt()
        except SandboxError as error:
            await check_sandbox(error)
            return failed
