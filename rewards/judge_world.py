"""A world of the task's own kind that the agent never touched, for judges that run something in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from agentgym import JudgeError, SandboxError, Task, TaskError, UnknownNameError, make
from agentgym.sandbox import Backend


@asynccontextmanager
async def judge_world(task: Task, method: str, judge: str, backend: str | Backend | None = None) -> AsyncIterator[Any]:
    """`agentgym.make(task.environment)`, not reset yet, and closed in the end.

    Args:
        method: what the world must have for this judge. judge: registered name of the reward, for the error.
    Raises: JudgeError if there is no such world, or if it fails inside of the `async with`.
    """
    try:
        world: Any = make(task.environment, backend=backend)
    except (UnknownNameError, SandboxError) as error:
        raise JudgeError(f"{task.id}: no world to judge in: {error}") from error
    try:
        if not hasattr(world, method):
            raise JudgeError(f"{task.id}: {task.environment} has no {method}(), so {judge} cannot judge in it.")
        yield world
    except (SandboxError, TaskError) as error:
        raise JudgeError(f"{task.id}: the judge's world failed: {error}") from error
    finally:
        await world.close()
