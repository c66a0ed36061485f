"""Builds games of interactive fiction: a treasure behind obstacles, in one of several themes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .fiction_game import Game
from .fiction_themes import NEW_THEMES, THEMES, Theme

WAYS = (("north", "south"), ("east", "west"), ("up", "down"))
TRIES = 200
LONGEST = 22
"""Maximum number of commands in the shortest way to win a generated game."""


def build(rng: random.Random, axes: Mapping[str, int]) -> tuple[str, dict[str, Any]]:
    """Return a game with N obstacles whose shortest way to win has from N + 2 to LONGEST commands.

    Returns: the wish, a sentence for the agent, and the game in the form that `fiction_game.Game` reads.
    Raises: ValueError if none was found in TRIES tries.
    """
    for _ in range(TRIES):
        theme = rng.choice(NEW_THEMES if axes["new_places"] else THEMES)
        draft = _Draft(rng, theme, rng.sample(theme.rooms, axes["rooms"]))
        treasure = rng.choice(theme.treasures)
        if not draft.hide_behind(treasure, axes["obstacles"], new_kinds=bool(axes["new_kinds"])):
            continue
        if axes["traps"]:
            draft.set_trap()
        draft.scatter(axes["others"])
        game = draft.game(treasure)
        solution = Game.read(game).solution()
        if solution is not None and axes["obstacles"] + 2 <= len(solution) <= LONGEST:
            return f"You are at {theme.name}. Get the {treasure}.", game
    raise ValueError(f"no game with {dict(axes)} was found. Ask for other numbers")


@dataclass
class _Draft:
    rng: random.Random
    theme: Theme
    rooms: list[str]
    exits: dict[str, dict[str, Any]] = field(init=False)
    things: dict[str, dict[str, Any]] = field(default_factory=dict)
    rules: list[dict[str, Any]] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Connect the rooms to a tree whose root is the first room."""
        self.exits = {room: {} for room in self.rooms}
        for number, room in enumerate(self.rooms[1:], 1):
            free = [(other, way) for other in self.rooms[:number] for way in WAYS if way[0] not in self.exits[other]]
            other, (there, back) = self.rng.choice(free)
            self.exits[other][there] = {"to": room}
            self.exits[room][back] = {"to": other}

    # ---- obstacles: each makes a thing hard to get, and returns the things that are needed for it

    def hide_behind(self, treasure: str, count: int, *, new_kinds: bool) -> bool:
        """Hide the treasure behind a chain of obstacles. Returns: whether there were enough obstacles."""
        kinds: list[Callable[[str], list[str] | None]] = [self._lock_up, self._give_to_somebody, self._block_the_way]
        open_things, joined = [treasure], False
        for number in range(count):
            thing = open_things.pop(self.rng.randrange(len(open_things)))
            if new_kinds and not joined and (number == count - 1 or self.rng.random() < 0.5):
                needed, joined = self._take_apart(thing), True
            else:
                needed = self.rng.choice(kinds)(thing)
            if needed is None:
                return False
            open_things += needed
        for thing in open_things:
            self._lay(thing, self.rng.choice(self.rooms))
        return True

    def _lock_up(self, thing: str) -> list[str] | None:
        """Put the thing into a box that a key opens."""
        if (pair := self._unused(self.theme.boxes)) is None:
            return None
        box, key = pair
        room = self.rng.choice(self.rooms)
        self._lay(box, room, portable=False, text=f"The {box} is locked.")
        self.things[thing] = {"at": "nowhere"}
        self._once(
            f"unlock {box} with {key}",
            [_part("here", box), _part("have", key)],
            [_part("appear", thing)],
            f"The {box} opens. In it is the {thing}.",
            f"You need the {key} for that, and the {box} must be here.",
        )
        return [key]

    def _give_to_somebody(self, thing: str) -> list[str] | None:
        """Give the thing to a person who asks for another thing in exchange."""
        if (pair := self._unused(self.theme.people)) is None:
            return None
        person, requested = pair
        room = self.rng.choice(self.rooms)
        self._lay(person, room, portable=False, text=f"The {person} would give you the {thing} for a {requested}.")
        self.things[thing] = {"at": "nowhere"}
        self._once(
            f"give {requested} to {person}",
            [_part("here", person), _part("have", requested)],
            [_part("remove", requested), _part("take", thing)],
            f"The {person} takes the {requested} and gives you the {thing}.",
            f"You need a {requested} for that, and the {person} must be here.",
        )
        return [requested]

    def _block_the_way(self, thing: str) -> list[str] | None:
        """Put the thing into a room whose only entrance is blocked until a tool, placed before it, clears it."""
        with_one_exit = [room for room in self.rooms[1:] if len(self.exits[room]) == 1]
        if (pair := self._unused(self.theme.barriers)) is None:
            return None
        barrier, tool, verb = pair
        room = self.rng.choice(with_one_exit)
        (back,) = self.exits[room].values()
        before = back["to"]
        flag = f"{barrier} gone"
        for way in self.exits[before].values():
            if way["to"] == room:
                if "needs" in way:
                    return None
                way |= {"needs": [_part("flag", flag)], "otherwise": f"The {barrier} is in the way."}
        self._lay(barrier, before, portable=False, text=f"The {barrier} blocks the way to the {room}.")
        self._once(
            f"{verb} {barrier} with {tool}",
            [_part("here", barrier), _part("have", tool)],
            [_part("set", flag), _part("remove", barrier)],
            f"The way to the {room} is free.",
            f"You need the {tool} for that, and the {barrier} must be here.",
        )
        self._lay(thing, room)
        return [tool]

    def _take_apart(self, thing: str) -> list[str] | None:
        """Make the thing from two others that must be joined."""
        first, second = f"{thing} handle", f"{thing} frame"
        self.things[thing] = {"at": "nowhere"}
        self._once(
            f"join {first} and {second}",
            [_part("have", first), _part("have", second)],
            [_part("remove", first), _part("remove", second), _part("take", thing)],
            f"You have made the {thing} whole.",
            "You must carry both.",
        )
        return [first, second]

    def set_trap(self) -> None:
        """Add a command that throws one of the needed things away."""
        needed = [
            name for name, thing in self.things.items() if thing["at"] in self.rooms and thing.get("portable", True)
        ]
        if needed:
            thing = self.rng.choice(needed)
            self._once(
                f"throw {thing} away", [_part("have", thing)], [_part("remove", thing)], "It is gone.", "You have none."
            )

    def scatter(self, count: int) -> None:
        for name in self.rng.sample(self.theme.others, count):
            self._lay(name, self.rng.choice(self.rooms))

    def game(self, treasure: str) -> dict[str, Any]:
        names = sorted(self.things)  # so that their order reveals nothing
        return {
            "start": self.rooms[0],
            "rooms": {room: {"exits": self.exits[room]} for room in self.rooms},
            "things": {name: self.things[name] for name in names},
            "rules": sorted(self.rules, key=lambda rule: str(rule["command"])),
            "goal": [_part("have", treasure)],
        }

    # ---- parts

    def _unused(self, choices: tuple[Any, ...]) -> Any | None:
        """Return a choice that shares no name with an earlier choice."""
        free = [choice for choice in choices if not self.used & set(choice[:2])]
        if not free:
            return None
        choice = self.rng.choice(free)
        self.used |= set(choice[:2])
        return choice

    def _lay(self, thing: str, room: str, **more: Any) -> None:
        self.things[thing] = {"at": room, **more}

    def _once(
        self, command: str, needs: list[dict[str, Any]], effects: list[dict[str, Any]], text: str, otherwise: str
    ) -> None:
        """Add a rule that works once."""
        flag = f"{command} done"
        self.rules.append(
            {
                "command": command,
                "needs": [*needs, {**_part("flag", flag), "yes": False}],
                "effects": [*effects, _part("set", flag)],
                "text": text,
                "otherwise": otherwise,
            }
        )


def _part(kind: str, name: str) -> dict[str, Any]:
    """Return a condition or an effect in the game's form."""
    return {"kind": kind, "name": name}
