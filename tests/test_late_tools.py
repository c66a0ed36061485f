"""A synchronous tool that ran out of time cannot be stopped, and the agent is told."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from agentgym import Environment, Task, tool
from agentgym.messages import Call, Message, ResultStatus


class Slow(Environment):
    def __init__(self) -> None:
        self.go, self.notes = threading.Event(), []

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        return task.opening()

    @tool(timeout_s=0.2)
    def write(self, text: str) -> str:
        """Write a note once it may."""
        self.go.wait(30)
        self.notes.append(text)
        return "written"

    @tool(timeout_s=0.2)
    async def read(self) -> str:
        """Read the notes."""
        return ",".join(self.notes)

    @tool(timeout_s=0.2)
    async def sleep(self) -> str:
        """Sleep."""
        await asyncio.sleep(5)
        return ""


def call(name: str, **arguments: Any) -> Call:
    return Call(name, arguments)


async def test_the_agent_is_told_that_a_tool_goes_on_after_its_time():
    environment = Slow()
    result = await environment.call(call("write", text="late"))
    assert result.status is ResultStatus.TIMEOUT
    assert result.content == "write took longer than 0.2 s. It is still running: what it changes may come later."
    assert (await environment.call(call("read"))).content == ""
    environment.go.set()
    for _ in range(100):
        await asyncio.sleep(0.01)
        if environment.notes:
            break
    assert (await environment.call(call("read"))).content == "late", "as the agent was told"


async def test_an_asynchronous_tool_is_stopped():
    environment = Slow()
    assert (await environment.call(call("sleep"))).content == "sleep took longer than 0.2 s."
    assert (await environment.call(call("read"))).ok
