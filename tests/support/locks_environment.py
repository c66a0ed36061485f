"""An environment of locks that are opened one after the other."""

from __future__ import annotations

from agentgym import Environment, Message, Reward, Task, ToolError, tool

LOCKS, KEYS, GROUP = 10, 4, 8


class Locks(Environment):
    """Ten locks in a row, of four keys each; a wrong key ends the attempt. In memory: nothing is isolated."""

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        self.opened, self.ended = 0, False
        self._keys = task.parameters["keys"]
        return task.opening()

    @tool(inline=True)
    def turn(self, key: int) -> str:
        """Turn a key in the next lock."""
        if self.ended:
            raise ToolError("It is over.")
        right = key == self._keys[self.opened]
        self.opened += right
        self.ended = not right or self.opened == LOCKS
        return "A click." if right else "It breaks."


class AllOpen(Reward):
    """1 if the last result of all ten was a click."""

    def outcome(self, episode):
        return {"success": float(len(episode.turns) == LOCKS and episode.turns[-1].results[-1].content == "A click.")}
