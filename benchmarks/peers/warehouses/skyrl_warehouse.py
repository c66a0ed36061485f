"""The warehouse as an environment of SkyRL-Gym, with a tool group of its own."""

import json
import random

from skyrl_gym.envs.base_text_env import BaseTextEnv, BaseTextEnvStepOutput
from skyrl_gym.tools.core import ToolGroup, tool


class Shelves(ToolGroup):
    """Four shelves with boxes."""

    def __init__(self, seed):
        super().__init__(name="shelves")
        draw = random.Random(seed)
        self.boxes = {shelf: 4 + draw.randrange(-3, 4) for shelf in "abc"}
        self.boxes["d"] = 16 - sum(self.boxes.values())

    def check(self, shelf):
        if not isinstance(shelf, str) or shelf not in self.boxes:
            raise ValueError(f"There is no shelf {shelf!r}.")

    @tool
    def look(self, shelf):
        self.check(shelf)
        return str(self.boxes[shelf])

    @tool
    def move(self, source, target, count):
        self.check(source)
        self.check(target)
        if type(count) is not int or not 0 <= count <= self.boxes[source]:
            raise ValueError(f"{source} holds {self.boxes[source]} boxes.")
        self.boxes[source] -= count
        self.boxes[target] += count
        return "moved"


class Warehouse(BaseTextEnv):
    """Answers calls as JSON text: {"name": "look", "arguments": ["a"]}."""

    def __init__(self, seed):
        super().__init__()
        self.max_turns = 16
        self.shelves = Shelves(seed)
        self.init_tool_groups([self.shelves])

    def step(self, action):
        self.turns += 1
        text, reward, done = self.answer(action)
        messages = [{"role": "user", "content": text}]
        over = done or self.turns >= self.max_turns
        return BaseTextEnvStepOutput(observations=messages, reward=reward, done=over, metadata={})

    def answer(self, action):
        try:
            call = json.loads(action)
            name, arguments = call["name"], call["arguments"]
        except (ValueError, TypeError, KeyError):
            return "That is no call.", 0.0, False
        if name == "finish":
            even = len(set(self.shelves.boxes.values())) == 1
            return "even" if even else "uneven", float(even), True
        if name not in self.tool_to_toolgroup or not isinstance(arguments, list):
            return f"There is no tool {name!r} with these arguments.", 0.0, False
        try:
            return self._execute_tool("shelves", name, arguments), 0.0, False
        except (TypeError, ValueError) as error:
            return str(error), 0.0, False
