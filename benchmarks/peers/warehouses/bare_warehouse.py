"""The warehouse as plain Python: the least cost of a step."""

import random


class Warehouse:
    def reset(self, seed):
        draw = random.Random(seed)
        self.boxes = {shelf: 4 + draw.randrange(-3, 4) for shelf in "abc"}
        self.boxes["d"] = 16 - sum(self.boxes.values())

    def look(self, shelf):
        return str(self.boxes[shelf])

    def move(self, source, target, count):
        self.boxes[source] -= count
        self.boxes[target] += count
        return "moved"

    def finish(self):
        return "even" if len(set(self.boxes.values())) == 1 else "uneven"
