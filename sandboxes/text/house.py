"""The house of the text adventure: rooms, doors, holders and things; the commands; shortest solutions."""

from __future__ import annotations

import copy
import re
from collections import deque
from collections.abc import Mapping
from typing import Any

from agentgym import ToolError

YOU = "you"
COMMANDS = "look, go north, open box, take cup from box, put cup in box, drop cup, unlock box with iron key"
_ARTICLES = re.compile(r"\b(?:the|a|an|my)\b")


class House:
    """A house whose state changes by commands.

    Args:
        plan: the constant part, as plain data: `exits` (room to direction to room), `holders` (name to room and
            whether it `opens`), `locks` (a holder, or a door written as `hall-cellar`, to its key).
        state: the changing part: `at`, `places` (thing to room, holder or "you"), `open`, `unlocked`, `seen` (rooms).
    """

    def __init__(self, plan: Mapping[str, Any], state: dict[str, Any]) -> None:
        self.plan = plan
        self.exits: Mapping[str, Mapping[str, str]] = plan["exits"]
        self.holders: Mapping[str, Mapping[str, Any]] = plan["holders"]
        self.locks: Mapping[str, str] = plan["locks"]
        self.state = state

    # ---- queries

    def locked(self, what: str | None) -> bool:
        return what in self.locks and what not in self.state["unlocked"]

    def door(self, room: str, other: str) -> str | None:
        """Return the door with a lock between two rooms; None if there is no such door."""
        return next((door for door in (f"{room}-{other}", f"{other}-{room}") if door in self.locks), None)

    def is_open(self, holder: str) -> bool:
        return not self.holders[holder]["opens"] or holder in self.state["open"]

    def preposition(self, holder: str) -> str:
        return "in" if self.holders[holder]["opens"] else "on"

    def visible(self, thing: str) -> bool:
        """Return whether the agent carries a thing, or can see it in the room."""
        location = self.state["places"].get(thing)
        if location in (YOU, self.state["at"]):
            return True
        return (
            location in self.holders and self.holders[location]["room"] == self.state["at"] and self.is_open(location)
        )

    def inside(self, location: str) -> list[str]:
        return sorted(thing for thing, thing_location in self.state["places"].items() if thing_location == location)

    # ---- commands

    def do(self, command: str) -> str:
        """Carry out one command. Returns: the reply. Raises: ToolError with the reason if it is not possible."""
        words = " ".join(_ARTICLES.sub(" ", re.sub(r"[^a-z\- ]", " ", command[:200].casefold())).split())
        for pattern, method in _VERBS:
            if match := pattern.fullmatch(words):
                reply: str = method(self, *match.groups())
                return reply
        raise ToolError(f"I do not understand {command[:40]!r}. Commands are: {COMMANDS}, inventory.")

    def look(self) -> str:
        at = self.state["at"]
        ways = []
        for direction, room in sorted(self.exits[at].items()):
            barred = " (locked door)" if self.locked(self.door(at, room)) else ""
            ways.append(f"{direction} to the {room}{barred}")
        descriptions = []
        for name, holder in self.holders.items():
            if holder["room"] == at:
                descriptions.append(
                    f"{name} ({', '.join(self.inside(name)) or 'empty'})"
                    if self.is_open(name)
                    else f"{name} ({'locked' if self.locked(name) else 'closed'})"
                )
        lines = [f"You are in the {at}.", f"You see: {', '.join([*descriptions, *self.inside(at)]) or 'nothing'}."]
        return " ".join([*lines, *([f"Ways: {', '.join(ways)}."] if ways else [])])

    def inventory(self) -> str:
        return f"You carry: {', '.join(self.inside(YOU)) or 'nothing'}."

    def go(self, direction: str) -> str:
        at = self.state["at"]
        room = self.exits[at].get(direction)
        if room is None:
            raise ToolError(f"No way leads {direction} from the {at}.")
        door = self.door(at, room)
        if self.locked(door):
            raise ToolError(f"The door to the {room} is locked. Write: unlock {room} door with ...")
        self.state["at"] = room
        self.state["seen"] = sorted({*self.state["seen"], room})
        return self.look()

    def open(self, name: str) -> str:
        self._near(name)
        if not self.holders[name]["opens"]:
            raise ToolError(f"The {name} is not a thing to open.")
        if self.locked(name):
            raise ToolError(f"The {name} is locked. Write: unlock {name} with ...")
        if name in self.state["open"]:
            raise ToolError(f"The {name} is open already.")
        self.state["open"] = sorted([*self.state["open"], name])
        return f"In the {name}: {', '.join(self.inside(name)) or 'nothing'}."

    def unlock(self, name: str, key: str) -> str:
        at = self.state["at"]
        if name.endswith(" door"):
            door = self.door(at, name.removesuffix(" door"))
            if door is None or name.removesuffix(" door") not in self.exits[at].values():
                raise ToolError(f"There is no {name[:40]!r} here.")
            what = door
        else:
            self._near(name)
            what = name
        if not self.locked(what):
            raise ToolError(f"The {name} is not locked.")
        if self.state["places"].get(key) != YOU:
            raise ToolError(f"You carry no {key[:40]!r}.")
        if self.locks[what] != key:
            raise ToolError(f"The {key} does not fit the {name}.")
        self.state["unlocked"] = sorted([*self.state["unlocked"], what])
        return f"The {name} is unlocked."

    def take(self, thing: str, holder: str | None = None) -> str:
        if not self.visible(thing) or (holder is not None and self.state["places"][thing] not in (holder, YOU)):
            raise ToolError(f"There is no {thing[:40]!r} to be taken{' from there' if holder else ' here'}.")
        if self.state["places"][thing] == YOU:
            raise ToolError(f"You carry the {thing} already.")
        self.state["places"][thing] = YOU
        return f"You take the {thing}."

    def put(self, thing: str, holder: str) -> str:
        self._carried(thing)
        self._near(holder)
        if not self.is_open(holder):
            raise ToolError(f"The {holder} is closed.")
        self.state["places"][thing] = holder
        return f"You put the {thing} {self.preposition(holder)} the {holder}."

    def drop(self, thing: str) -> str:
        self._carried(thing)
        self.state["places"][thing] = self.state["at"]
        return f"You drop the {thing}."

    def _near(self, name: str) -> None:
        if name not in self.holders or self.holders[name]["room"] != self.state["at"]:
            raise ToolError(f"There is no {name[:40]!r} here.")

    def _carried(self, thing: str) -> None:
        if self.state["places"].get(thing) != YOU:
            raise ToolError(f"You do not carry {thing[:40]!r}.")

    # ---- solutions

    def solution(self, quest: list[list[str]]) -> list[str]:
        """Return commands that bring each thing to its holder, starting at the current state, which does not change.

        A lock is opened only if it is in the way.
        Raises: RecursionError if a key is behind its own lock.
        """
        house, commands = House(self.plan, copy.deepcopy(self.state)), list[str]()
        for thing, holder in quest:
            if house.state["places"][thing] != holder:
                house._fetch(thing, commands)
                house._enter(holder, commands)
                house._run(f"put {thing} {house.preposition(holder)} {holder}", commands)
        return commands

    def _run(self, command: str, commands: list[str]) -> None:
        self.do(command)
        commands.append(command)

    def _fetch(self, thing: str, commands: list[str]) -> None:
        location = self.state["places"][thing]
        if location == YOU:
            return
        if location in self.holders:
            self._enter(location, commands)
            self._run(f"take {thing} from {location}", commands)
        else:
            self._walk(location, commands)
            self._run(f"take {thing}", commands)

    def _enter(self, holder: str, commands: list[str]) -> None:
        """Go to a holder and open it; add the commands for this to `commands`."""
        if self.locked(holder):
            self._fetch(self.locks[holder], commands)
        self._walk(self.holders[holder]["room"], commands)
        if self.locked(holder):
            self._run(f"unlock {holder} with {self.locks[holder]}", commands)
        if not self.is_open(holder):
            self._run(f"open {holder}", commands)

    def _walk(self, room: str, commands: list[str]) -> None:
        while self.state["at"] != room:
            way = self._way(self.state["at"], room)
            here = self.state["at"]
            doors = []
            for direction in way:
                there = self.exits[here][direction]
                doors.append(self.door(here, there))
                here = there
            barred = [door for door in doors if self.locked(door)]
            if barred and self.state["places"][self.locks[str(barred[0])]] != YOU:
                self._fetch(self.locks[str(barred[0])], commands)
            elif doors[0] in barred:
                there = self.exits[self.state["at"]][way[0]]
                self._run(f"unlock {there} door with {self.locks[str(doors[0])]}", commands)
            else:
                self._run(f"go {way[0]}", commands)

    def _way(self, start: str, goal: str) -> list[str]:
        """Return the directions of a shortest way, ignoring locks. Raises: KeyError if there is none."""
        directions_to: dict[str, list[str]] = {start: []}
        waiting = deque([start])
        while waiting and goal not in directions_to:
            room = waiting.popleft()
            for direction, other in sorted(self.exits[room].items()):
                if other not in directions_to:
                    directions_to[other] = [*directions_to[room], direction]
                    waiting.append(other)
        return directions_to[goal]


_VERBS: tuple[tuple[re.Pattern[str], Any], ...] = (
    (re.compile(r"look(?: around)?"), House.look),
    (re.compile(r"inventory|i"), House.inventory),
    (re.compile(r"(?:go|walk)(?: to)? (north|east|south|west)"), House.go),
    (re.compile(r"open ([a-z\- ]+)"), House.open),
    (re.compile(r"unlock ([a-z\- ]+) with ([a-z\- ]+)"), House.unlock),
    (re.compile(r"(?:take|get|pick up) ([a-z\- ]+?)(?: from ([a-z\- ]+))?"), House.take),
    (re.compile(r"(?:put|place) ([a-z\- ]+?) (?:into|in|onto|on) ([a-z\- ]+)"), House.put),
    (re.compile(r"drop ([a-z\- ]+)"), House.drop),
)
