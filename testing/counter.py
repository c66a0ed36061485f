"""A counter: the smallest environment with tools. Only tests and benchmarks register it."""

from __future__ import annotations

import asyncio

from agentgym import Checkpoint, Environment, Message, Reward, Task, ToolError, Trajectory, tool
from agentgym.reward import Components


class Counter(Environment):
    """Count to the task's target (`parameters["target"]`), then submit. In memory, nothing to isolate.

    Args:
        latency_s: how long `slow_add` takes, in seconds.
    """

    def __init__(self, latency_s: float = 0.0) -> None:
        self.latency_s = latency_s
        self.value = 0

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self.value = 0
        return task.opening()

    @tool(inline=True)
    def add(self, amount: int = 1) -> str:
        """Add to the counter and read it."""
        self.value += amount
        return str(self.value)

    @tool
    async def slow_add(self, amount: int = 1) -> str:
        """Add to the counter after a while and read it."""
        await asyncio.sleep(self.latency_s)
        self.value += amount
        return str(self.value)

    @tool(inline=True)
    def refuse(self) -> str:
        """Always say no."""
        raise ToolError("The counter refuses.")

    @tool(final=True, inline=True)
    def submit(self) -> str:
        """Hand in the counter as it stands."""
        return f"submitted {self.value}"


class CounterWithState(Counter):
    """A counter whose state can be hashed, captured and restored."""

    async def state_key(self) -> str | None:
        return str(self.value)

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint({"value": self.value})

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        self.value = checkpoint.data["value"]


class TargetReached(Reward):
    """`success` is 1 where the submitted value is the task's truth; each turn earns 1 for a result that is ok."""

    weights = {"ok": 0.1}

    def turn(self, turn: object, episode: Trajectory) -> Components:
        results = getattr(turn, "results", ())
        return {"ok": float(all(result.ok for result in results))} if results else {}

    def outcome(self, episode: Trajectory) -> Components:
        last = episode.turns[-1].results[-1:] if episode.turns else ()
        return {"success": float(any(r.final and r.content == f"submitted {episode.task.truth}" for r in last))}
