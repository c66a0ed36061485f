"""The warehouse as an environment of OpenEnv, whose tools are those of an MCP server."""

import random
from uuid import uuid4

from fastmcp import FastMCP
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.types import Observation, State


class Warehouse(MCPEnvironment):
    """Four shelves with boxes."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        server = FastMCP("warehouse")
        self.boxes, self.answer = {}, None

        @server.tool
        def look(shelf: str) -> int:
            """Count the boxes on a shelf."""
            self.check(shelf)
            return self.boxes[shelf]

        @server.tool
        def move(source: str, target: str, count: int) -> str:
            """Move boxes from one shelf to another."""
            self.check(source)
            self.check(target)
            if not 0 <= count <= self.boxes[source]:
                raise ValueError(f"{source} holds {self.boxes[source]} boxes.")
            self.boxes[source] -= count
            self.boxes[target] += count
            return "moved"

        @server.tool
        def finish() -> str:
            """Say that every shelf holds as many boxes as the others."""
            self.answer = "even" if len(set(self.boxes.values())) == 1 else "uneven"
            return self.answer

        super().__init__(server)

    def check(self, shelf):
        if shelf not in self.boxes:
            raise ValueError(f"There is no shelf {shelf!r}.")

    def reset(self, seed=None, episode_id=None, **options):
        draw = random.Random(seed)
        self.boxes = {shelf: 4 + draw.randrange(-3, 4) for shelf in "abc"}
        self.boxes["d"] = 16 - sum(self.boxes.values())
        self.answer = None
        self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
        return Observation(done=False, reward=0.0)

    async def step_async(self, action, timeout_s=None, **options):
        observation = await super().step_async(action, timeout_s=timeout_s, **options)
        self._state.step_count += 1
        observation.done = self.answer is not None
        observation.reward = float(self.answer == "even")
        return observation

    def _step_impl(self, action, timeout_s=None, **options):
        return Observation(done=False, reward=0.0, metadata={"error": "Call a tool."})

    @property
    def state(self):
        return self._state
