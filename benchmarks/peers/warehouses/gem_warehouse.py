"""The warehouse as an environment of GEM, with calls as JSON text."""

import json
import random

import gem


class Warehouse(gem.Env):
    """Four shelves with boxes."""

    def reset(self, seed=None):
        super().reset(seed)
        draw = random.Random(seed)
        self.boxes = {shelf: 4 + draw.randrange(-3, 4) for shelf in "abc"}
        self.boxes["d"] = 16 - sum(self.boxes.values())
        return (
            'Make all shelves hold as many boxes. Call a tool as JSON: {"name": "look", "arguments": {"shelf": "a"}} '
            'counts; "move" with "source", "target" and "count" moves boxes; "finish" without arguments ends.'
        ), {}

    def step(self, action):
        try:
            call = json.loads(action)
            name, arguments = call["name"], call["arguments"]
        except (ValueError, TypeError, KeyError):
            return "That is no call.", 0.0, False, False, {}
        if name == "finish":
            even = len(set(self.boxes.values())) == 1
            return "even" if even else "uneven", float(even), True, False, {}
        if name not in ("look", "move"):
            return f"There is no tool {name!r}.", 0.0, False, False, {}
        try:
            text = getattr(self, name)(**arguments)
        except (TypeError, ValueError) as error:
            text = str(error)
        return text, 0.0, False, False, {}

    def check(self, shelf):
        if not isinstance(shelf, str) or shelf not in self.boxes:
            raise ValueError(f"There is no shelf {shelf!r}.")

    def look(self, shelf):
        self.check(shelf)
        return str(self.boxes[shelf])

    def move(self, source, target, count):
        self.check(source)
        self.check(target)
        if type(count) is not int or not 0 <= count <= self.boxes[source]:
            raise ValueError(f"{source} holds {self.boxes[source]} boxes.")
        self.boxes[source] -= count
        self.boxes[target] += count
        return "moved"
