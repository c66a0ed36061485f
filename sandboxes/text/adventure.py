"""`agentgym/text-adventure-v1`: rooms, boxes, locks, keys, and things to bring to their places."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import Call, Message, Task, ToolError, seed_of, tool

from .base import Axis, Puzzle, Script, TextEnvironment
from .house import House
from .house_builder import build

AT_ONCE, FEW = 5, 15


class Adventure(TextEnvironment):
    """A text adventure. Everything is in memory, so nothing is isolated.

    Task parameters: `house` and `state`, as for `house.House`; `quest`, pairs of a thing and the holder to put it in.
    No door or box can be locked or closed again, so every state has a solution.
    Source: the kind of game is TextWorld's, arXiv:1806.11532; words, rules and generator are our own.
    """

    task_set = "text/adventure-v1"

    id = "agentgym/text-adventure-v1"
    _quest: list[list[str]]
    _house: House
    _length: int  # number of commands in the shortest solution
    axes = {
        "rooms": Axis(1, 9, "rooms"),
        "locks": Axis(0, 4, "locked doors and boxes"),
        "things": Axis(1, 3, "things to be brought"),
        "others": Axis(0, 8, "things that nobody wants"),
        "secretive": Axis(0, 1, "1: the task does not say where the things and keys are"),
    }
    levels = (
        {"rooms": 1, "others": 2},
        {"rooms": 2, "others": 2},
        {"rooms": 2, "locks": 1, "others": 2},
        {"rooms": 3, "locks": 1, "others": 3},
        {"rooms": 4, "locks": 2, "others": 3},
        {"rooms": 5, "locks": 2, "things": 2, "others": 4},
        {"rooms": 4, "locks": 1, "others": 4, "secretive": 1},
        {"rooms": 6, "locks": 2, "others": 4, "secretive": 1},
        {"rooms": 8, "locks": 3, "things": 2, "others": 6, "secretive": 1},
    )

    def begin(self) -> dict[str, Any]:
        state = self.parameter("state", dict)
        self._quest = self.parameter("quest", list)
        try:
            self._house = _fresh(self.parameter("house", dict), state)
            self._house.look()
            self._length = len(self._house.solution(self._quest))
        except (KeyError, TypeError, ValueError, ToolError, RecursionError) as error:
            raise self.refuse(f"the house cannot be used: {type(error).__name__}: {error}.") from error
        return self._house.state

    def solved(self) -> bool:
        return all(self.state["places"][thing] == holder for thing, holder in self._quest)

    def nearness(self) -> float:
        """Return L / (L + remaining commands), with L the length of the shortest solution from the start."""
        if self.solved():
            return 1.0
        self._house.state = self.state
        return self._length / (self._length + len(self._house.solution(self._quest)))

    @tool(inline=True)
    def act(self, command: str) -> str:
        """Do something: look, inventory, go north, open box, unlock box with iron key, unlock hall door with iron key,
        take cup, take cup from box, put cup in box, drop cup. Up to five commands may be joined with a semicolon.
        """
        self.check_open()
        self._house.state = self.state
        replies: list[str] = []
        for part in [part for part in command.split(";") if part.strip()][:AT_ONCE] or [""]:
            try:
                replies.append(self._house.do(part))
            except ToolError as error:
                raise ToolError(" ".join([*replies, str(error)])) from error
            if self.solved():
                break
        self.settle()
        return " ".join([*replies, "You have done it."] if self.solved() else replies)

    @classmethod
    def invent(cls, rng: random.Random, axes: Mapping[str, int]) -> Puzzle:
        house, state, quest = build(rng, axes)
        wishes = ", then ".join(f"put the {thing} {_in(house, holder)} the {holder}" for thing, holder in quest)
        whereabouts = "" if axes["secretive"] else _whereabouts(house, state, quest)
        look = _fresh(house, state).look()
        return Puzzle(
            f"{wishes[0].upper()}{wishes[1:]}.{whereabouts} {look}",
            {"house": house, "state": state, "quest": quest},
            {"solution": _fresh(house, state).solution(quest)},
        )

    @staticmethod
    def oracle(task: Task) -> Script:
        """Play a shortest solution, one command per turn, or several if there are many. The truth is not read."""
        house, state, quest = (task.parameters[name] for name in ("house", "state", "quest"))
        return _player(_fresh(house, state).solution(quest))

    @staticmethod
    def imperfect_oracle(task: Task) -> Script:
        """Use the commands correctly, but bring the wrong thing, or the right thing to the wrong place."""
        rng = random.Random(seed_of("novice", task.id))
        house, state, quest = (task.parameters[name] for name in ("house", "state", "quest"))
        thing, holder = quest[0]
        others = [other for other in state["places"] if other != thing and not other.endswith(" key")]
        other_holders = [other for other in house["holders"] if other != holder and state["places"][thing] != other]
        wrong = [
            *([[rng.choice(others), holder]] if others else []),
            *([[thing, rng.choice(other_holders)]] if other_holders else []),
        ]
        chosen = rng.choice([pair for pair in wrong if state["places"][pair[0]] != pair[1]] or [[thing, holder]])
        return _player(_fresh(house, state).solution([chosen]))


def _fresh(house: Mapping[str, Any], state: Mapping[str, Any]) -> House:
    empty = {"open": [], "unlocked": [], "seen": [state["at"]]}
    return House(house, {**empty, **state, "places": dict(state["places"])})


def _in(house: Mapping[str, Any], holder: str) -> str:
    return "in" if house["holders"][holder]["opens"] else "on"


def _whereabouts(house: Mapping[str, Any], state: Mapping[str, Any], quest: Sequence[Sequence[str]]) -> str:
    """Return sentences that say where the keys, the quest's things and their holders are."""
    sentences = []
    rooms = len(house["exits"])
    for thing in [*(thing for thing, _ in quest), *sorted(house["locks"].values())]:
        location = state["places"][thing]
        room = house["holders"][location]["room"] if location in house["holders"] else location
        spot = f"{_in(house, location)} the {location}" if location in house["holders"] else "on the floor"
        sentences.append(f"The {thing} is {spot}{f' in the {room}' if rooms > 1 else ''}.")
    for holder in dict.fromkeys(holder for _, holder in quest):
        if rooms > 1:
            sentences.append(f"The {holder} is in the {house['holders'][holder]['room']}.")
    return " " + " ".join(sentences)


def _player(commands: Sequence[str]) -> Script:
    at_once = -(-len(commands) // FEW)

    def script(messages: Sequence[Message]) -> Message:
        turn = sum(message.role == "assistant" for message in messages)
        part = commands[turn * at_once : (turn + 1) * at_once]
        return Message("assistant", "", (Call("act", {"command": "; ".join(part)}),)) if part else _DONE

    return script


_DONE = Message("assistant", "Done.")
