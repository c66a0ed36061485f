"""Environments that a test's server offers: `agentgym serve environments --import THIS_FILE`."""

from __future__ import annotations

import asyncio

from agentgym import Checkpoint, Environment, Message, SandboxSpec, Task, ToolError, register, tool
from agentgym.testing import Counter, CounterWithState


class Workshop(Environment):
    """A sandbox with files, and a checkpoint of them. Isolated by its sandbox."""

    sandbox = SandboxSpec(memory_mib=64, disk_mib=16)

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        await self.default_sandbox(empty=True)
        return task.opening()

    @tool
    async def write(self, name: str, text: str) -> str:
        """Write a file."""
        try:
            await (await self.default_sandbox()).write(f"/work/{name}", text.encode())
        except OSError as error:
            raise ToolError(f"{name}: {error.strerror}") from error
        return "written"

    @tool
    async def read(self, name: str) -> str:
        """Read a file."""
        try:
            return (await (await self.default_sandbox()).read(f"/work/{name}")).decode("utf-8", "replace")
        except OSError as error:
            raise ToolError(f"{name}: {error.strerror}") from error

    @tool
    async def run(self, command: str) -> str:
        """Run a command in a shell."""
        return (await (await self.default_sandbox()).exec(["sh", "-c", command], timeout_s=60)).text

    async def state_key(self) -> str | None:
        return (await (await self.default_sandbox()).snapshot()).id

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint({}, await (await self.default_sandbox()).snapshot())

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        self.sandboxes.default = await self.open_sandbox(snapshot=checkpoint.snapshot)


class Oddities(Counter):
    """What may go wrong in the code of an environment, and tools that come and go. In memory."""

    def __init__(self, start: int = 0) -> None:
        super().__init__()
        self.start = start

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        await super().reset(task, seed=seed)
        self.value = self.start
        return [Message("user", f"{task.prompt} truth={task.truth!r}")]

    async def respond(self, message: Message) -> list[Message]:
        return [Message("user", f"You said {message.text}.")]

    @tool(inline=True)
    def divide(self) -> str:
        """Divide by zero."""
        return str(1 / 0)

    @tool(inline=True)
    def exchange(self) -> str:
        """Take the tool add away, and end the episode."""
        self.tools = {name: each for name, each in self.tools.items() if name != "add"}
        self.end_episode()
        return "exchanged"

    @tool
    async def wait_for(self, seconds: float) -> str:
        """Wait."""
        await asyncio.sleep(seconds)
        return "waited"

    @tool(inline=True)
    def append(self, digit: int) -> str:
        """Append a digit to the counter."""
        self.value = 10 * self.value + digit
        return str(self.value)


register("test/counter-v1", Counter)
register("test/counter-with-state-v1", CounterWithState)
register("test/workshop-v1", Workshop)
register("test/oddities-v1", Oddities)
