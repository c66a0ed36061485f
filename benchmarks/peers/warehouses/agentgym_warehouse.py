"""The warehouse as an environment of agentgym."""

import random

from agentgym import Environment, ToolError, reward_function, tool


class Warehouse(Environment):
    """Four shelves with boxes. In memory: nothing here needs isolation."""

    async def reset(self, task, *, seed):
        draw = random.Random(seed)
        self.boxes = {shelf: 4 + draw.randrange(-3, 4) for shelf in "abc"}
        self.boxes["d"] = 16 - sum(self.boxes.values())
        return task.opening()

    def check(self, shelf):
        if shelf not in self.boxes:
            raise ToolError(f"There is no shelf {shelf!r}.")

    @tool(inline=True)
    def look(self, shelf: str) -> int:
        """Count the boxes on a shelf."""
        self.check(shelf)
        return self.boxes[shelf]

    @tool(inline=True)
    def move(self, source: str, target: str, count: int) -> str:
        """Move boxes from one shelf to another."""
        self.check(source)
        self.check(target)
        if not 0 <= count <= self.boxes[source]:
            raise ToolError(f"{source} holds {self.boxes[source]} boxes.")
        self.boxes[source] -= count
        self.boxes[target] += count
        return "moved"

    @tool(final=True, inline=True)
    def finish(self) -> str:
        """Say that every shelf holds as many boxes as the others."""
        return "even" if len(set(self.boxes.values())) == 1 else "uneven"


@reward_function
def even(episode):
    """The agent finished when all shelves held as many boxes."""
    return float(any(result.content == "even" for turn in episode.turns for result in turn.results))
