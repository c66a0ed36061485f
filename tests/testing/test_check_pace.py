"""check_environment names a tool that blocks the event loop or never returns, at its first calls."""

from __future__ import annotations

import asyncio
import time

import pytest

from agentgym import Environment, tool
from agentgym.errors import ConformanceError
from agentgym.testing import check_environment


class Blocking(Environment):
    """A tool that sleeps on the loop. Nothing is isolated."""

    async def reset(self, task, *, seed):
        return task.opening()

    @tool
    async def look_up(self, word: str) -> str:
        """Look a word up.

        Args:
            word: what to look up.
        """
        time.sleep(1.3)  # noqa: ASYNC251  that is the mistake
        return word


class Hanging(Environment):
    """A tool that waits for ever. Nothing is isolated."""

    async def reset(self, task, *, seed):
        return task.opening()

    @tool(timeout_s=0.5)
    async def look_up(self, word: str) -> str:
        """Look a word up.

        Args:
            word: what to look up.
        """
        await asyncio.Event().wait()
        return word


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        (Blocking, r"look_up\(.*\) blocked the event loop for 1\.\d s, in which all other episodes stood still"),
        (Hanging, r"look_up\(.*\) did not return in 0\.5 s\. Raise the tool's timeout_s"),
    ],
)
async def test_a_tool_that_blocks_or_hangs_is_found_at_its_first_calls(environment, message):
    began = time.monotonic()
    with pytest.raises(ConformanceError, match=message):
        await check_environment(environment)
    assert time.monotonic() - began < 8
