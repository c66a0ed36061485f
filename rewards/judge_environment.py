"""For rewards that run something: a fresh environment of the task's kind, which the agent cannot have manipulated."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from agentgym import JudgeError, SandboxError, Task, TaskError, UnknownNameError, make
from agentgym.sandbox import Backend


class JudgeEnvironmentFailed(JudgeError, SandboxError):
    """The sandbox of a judge's environment failed, possibly because of the submission."""


@asynccontextmanager
async def judge_environment(
    task: Task,
    method: str,
    judge: str,
    backend: str | Backend | None = None,
    options: Mapping[str, Any] | None = None,
) -> AsyncIterator[Any]:
    """Yield a fresh environment of the task's kind, not yet reset, and close it at the end.

    Args:
        method: the method that the judge needs. judge: registered name of the reward, for the error.
        options: passed to the environment's constructor.
    Raises: JudgeError if there is no such environment, or if it fails inside the `async with`; its subclass
        JudgeEnvironmentFailed if the sandbox fails, for `agentgym.reward.judge_submission`.
    """
    try:
        environment: Any = make(task.environment, backend=backend, **(options or {}))
    except (UnknownNameError, SandboxError) as error:
        raise JudgeError(f"{task.id}: the judge cannot create its own copy of the environment: {error}") from error
    try:
        if not hasattr(environment, method):
            raise JudgeError(
                f"{task.id}: {judge} needs the method {method}() of the environment, but {task.environment} has none."
            )
        yield environment
    except SandboxError as error:
        raise JudgeEnvironmentFailed(f"{task.id}: the judge's copy of the environment failed: {error}") from error
    except TaskError as error:
        raise JudgeError(f"{task.id}: the judge's copy of the environment failed: {error}") from error
    finally:
        await environment.close()
