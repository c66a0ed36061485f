"""`agentgym/text-doors-v1`: a row of rooms with keys and a door; in each room the agent takes one key."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from typing_extensions import override

from agentgym import Call, Message, Outlook, Task, ToolError, seed_of, tool

from .base import Axis, Puzzle, Script, TextEnvironment

COLOURS = ("red", "blue", "gold", "gray", "pink", "teal", "lime", "tan", "plum", "ruby", "jade", "rust")
ANY = "any"  # the sign of a room in which all keys are equally good
KEYS = 3
PROMPTS = {"every": "Every sign names the key to take.", "first": "The first sign names the key to take."}
HORIZONS = (2, 3, 4, 6, 8, 12, 16, 24, 32)


class Doors(TextEnvironment):
    """The agent takes one key in each room, and the door opens with any key. In memory, so nothing is isolated.

    A room reads `at blue: red blue gray`: the colour on its sign, then those of its keys. The right key has the colour
    of the sign. A wrong key opens the door too, and nothing reveals the mistake. A task is solved if all keys that
    count are right. The episode ends after the last room.

    Task parameters: `rooms`, their texts; `horizon`, their number, which is also the number of turns without invalid
    calls; `counts`, `every` if every key counts, or `first` if only the key of the first room does; then all later
    signs say `any`, and any key is right there.
    """

    task_set = "text/doors-v1"

    id = "agentgym/text-doors-v1"
    axes = {
        "horizon": Axis(2, 32, "rooms"),
        "first": Axis(0, 1, "1: only the key of the first room counts"),
        "reserved": Axis(0, 1, "1: rooms show three keys that no room shows together otherwise"),
    }
    levels = tuple({"horizon": horizon} for horizon in HORIZONS)

    def begin(self) -> dict[str, Any]:
        rooms, horizon, counts = self.parameter("rooms", list), self.parameter("horizon", int), self._counts()
        if horizon < 2 or len(rooms) != horizon:
            raise self.refuse(
                f"there are {len(rooms)} rooms, but the horizon is {horizon}: both must be the same number, at least 2."
            )
        for index, room in enumerate(rooms):
            decides = counts == "every" or index == 0
            if not isinstance(room, str) or not _is_room(room, decides):
                raise self.refuse(f"room {index} is {room!r:.80}. Write it as 'at blue: red blue gray'.")
        return {"room": 0, "right": 0}

    @classmethod
    @override
    def least_turns(cls, task: Task) -> int:
        horizon = task.parameters.get("horizon")
        return horizon if isinstance(horizon, int) else 1

    def solved(self) -> bool:
        return bool(self.state["right"] == (1 if self._counts() == "first" else self._horizon()) and self._is_over())

    def lost(self) -> bool:
        return self._is_over() and not self.solved()

    def nearness(self) -> float:
        """Return the number of right keys so far as a share of all rooms, if every key counts.

        If only the first key counts: 0 before it is taken, and 0 after a wrong one; 0.5 after the right one, rising
        evenly to 1 in the remaining rooms.
        """
        if self._counts() == "every":
            return float(self.state["right"] / self._horizon())
        walked = (self.state["room"] - 1) / (self._horizon() - 1)
        return 0.5 + 0.5 * walked if self.state["right"] else 0.0

    async def outlook(self) -> Outlook:
        """Return the outlook: hopeless once a wrong key that counts was taken; one turn for each room left."""
        expected = self.state["room"] if self._counts() == "every" else min(self.state["room"], 1)
        hopeless = "a wrong key was taken" if self.state["right"] < expected else None
        return Outlook(hopeless, turns_needed=self._horizon() - int(self.state["room"]))

    @tool(inline=True)
    def take(self, key: str) -> str:
        """Take the key of this colour, and read the next room."""
        self.check_open()
        state, rooms = self.state, self._parameters["rooms"]
        sign, keys = read_room(rooms[state["room"]])
        if key not in keys:
            raise ToolError(f"no such key\n{rooms[state['room']]}")
        state["right"] += key == sign
        state["room"] += 1
        self.settle()
        return "end" if self._is_over() else str(rooms[state["room"]])

    def _horizon(self) -> int:
        return int(self._parameters["horizon"])

    def _is_over(self) -> bool:
        return bool(self.state["room"] >= self._horizon())

    def _counts(self) -> str:
        counts: str = self.parameter("counts", str)
        if counts not in PROMPTS:
            raise self.refuse(f"parameters['counts'] is {counts!r}. Choose 'every' or 'first'.")
        return counts

    @classmethod
    def invent(cls, rng: random.Random, axes: Mapping[str, int]) -> Puzzle:
        counts = "first" if axes["first"] else "every"
        rooms, positions = [], []
        for index in range(axes["horizon"]):
            keys = rng.choice(_RESERVED if axes["reserved"] else _KNOWN)
            colours = rng.sample(keys, KEYS)
            sign = ANY
            if counts == "every" or index == 0:
                positions.append(rng.randrange(KEYS))
                sign = colours[positions[-1]]
            rooms.append(f"at {sign}: {' '.join(colours)}")
        parameters = {"rooms": rooms, "horizon": axes["horizon"], "counts": counts}
        return Puzzle(f"{PROMPTS[counts]}\n{rooms[0]}", parameters, {"positions": positions})

    @staticmethod
    def oracle(task: Task) -> Script:
        """Take the key that the sign names, or any key if the sign says `any`; the truth is not read."""
        return _player(task, mistakes=0.0)

    @staticmethod
    def imperfect_oracle(task: Task) -> Script:
        """Play like the oracle, but in each room take a wrong key with probability 1/2, independently."""
        return _player(task, mistakes=0.5)


def read_room(room: str) -> tuple[str, list[str]]:
    """Return the colour on the sign of a room, and the colours of its keys."""
    sign, _, keys = room.partition(": ")
    return sign.removeprefix("at "), keys.split(" ")


def is_reserved(keys: Iterable[str]) -> bool:
    """Return whether three keys are a reserved combination: about a fifth are. Axis `reserved` = 1 draws only these."""
    return sum(map(COLOURS.index, keys)) % 5 == 0


_KNOWN = [keys for keys in combinations(COLOURS, KEYS) if not is_reserved(keys)]
_RESERVED = [keys for keys in combinations(COLOURS, KEYS) if is_reserved(keys)]


def _is_room(room: str, decides: bool) -> bool:
    """Return whether a room has keys of different colours and, if its key counts, a sign naming one of them."""
    sign, keys = read_room(room)
    is_complete = room.startswith("at ") and len(keys) == len(set(keys)) == KEYS and "" not in keys
    return is_complete and (sign in keys if decides else sign == ANY)


def _player(task: Task, mistakes: float) -> Script:
    def script(messages: Sequence[Message]) -> Message:
        turn = sum(message.role == "assistant" for message in messages)
        rng = random.Random(seed_of("player", task.id, turn))
        sign, keys = read_room(messages[-1].text.rpartition("\n")[2])
        is_mistaken = rng.random() < mistakes
        wrong_colours = [colour for colour in keys if colour != sign]
        colour = rng.choice(wrong_colours) if sign not in keys or is_mistaken else sign
        return Message("assistant", "", (Call("take", {"key": colour}),))

    return script
