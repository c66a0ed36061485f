"""Builds houses for the text adventure: the key of every lock can be reached without opening that lock."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

ROOMS = ("kitchen", "hall", "cellar", "attic", "library", "study", "garden", "bedroom", "garage", "pantry", "workshop")
BOXES = ("chest", "box", "cupboard", "drawer", "wardrobe", "trunk", "safe", "crate", "cabinet", "locker", "suitcase")
SURFACES = ("table", "shelf", "desk", "bench", "counter", "stool", "mantel", "rack", "stand", "tray", "sill")
THINGS = (
    "apple",
    "book",
    "lamp",
    "coin",
    "map",
    "ring",
    "cup",
    "rope",
    "letter",
    "candle",
    "spoon",
    "hat",
    "bell",
    "clock",
    "doll",
    "knife",
    "stone",
    "feather",
    "bottle",
    "brush",
    "pearl",
    "mirror",
    "flute",
    "glove",
)
KEYS = ("iron key", "brass key", "silver key", "copper key", "golden key")
WAYS = {"north": (-1, 0), "south": (1, 0), "west": (0, -1), "east": (0, 1)}
BACK = {"north": "south", "south": "north", "west": "east", "east": "west"}


def build(rng: random.Random, axes: Mapping[str, int]) -> tuple[dict[str, Any], dict[str, Any], list[list[str]]]:
    """Return a house, its initial state, and a quest, in the form that `house.House` and `Adventure` read."""
    rooms = rng.sample(ROOMS, axes["rooms"])
    exits = _exits(rng, rooms)
    boxes, surfaces = rng.sample(BOXES, len(BOXES)), rng.sample(SURFACES, len(SURFACES))
    holders: dict[str, dict[str, Any]] = {}
    for room in rooms:
        holders[boxes.pop()] = {"room": room, "opens": True}
        holders[surfaces.pop()] = {"room": room, "opens": False}
    plan: dict[str, Any] = {"exits": exits, "holders": holders, "locks": {}}
    locations: dict[str, str] = {}
    barred = _lock(rng, plan, locations, rooms[0], axes["locks"])
    names = rng.sample(THINGS, axes["things"] + axes["others"])
    everywhere = [*rooms, *holders]
    for number, name in enumerate(names):
        locations[name] = rng.choice(sorted(barred) if number == 0 and barred else everywhere)
    quest = []
    for name in names[: axes["things"]]:
        quest.append([name, rng.choice([holder for holder in holders if holder != locations[name]])])
    order = sorted(locations)
    return plan, {"at": rooms[0], "places": {name: locations[name] for name in order}}, quest


def _exits(rng: random.Random, rooms: list[str]) -> dict[str, dict[str, str]]:
    """Place rooms on the squares of a grid, each new room next to an older one."""
    squares = {(0, 0): rooms[0]}
    exits: dict[str, dict[str, str]] = {room: {} for room in rooms}
    for room in rooms[1:]:
        choices = [
            (square, way, (square[0] + step[0], square[1] + step[1]))
            for square in squares
            for way, step in WAYS.items()
            if (square[0] + step[0], square[1] + step[1]) not in squares
        ]
        beside, way, square = rng.choice(choices)
        squares[square] = room
        exits[squares[beside]][way] = room
        exits[room][BACK[way]] = squares[beside]
    return exits


def _lock(rng: random.Random, plan: dict[str, Any], locations: dict[str, str], start: str, count: int) -> set[str]:
    """Lock doors and boxes one after the other; each key is placed where it can be reached without that key.

    If possible, a later lock blocks the key of an earlier one, so that the keys must be found in order. The last lock's
    key is not behind any lock, so everything can be opened.

    Returns: the rooms and holders behind the first lock; empty if there is none.
    """
    locks: dict[str, str] = plan["locks"]
    doors = sorted({"-".join(sorted((room, other))) for room, ways in plan["exits"].items() for other in ways.values()})
    boxes = [name for name, holder in plan["holders"].items() if holder["opens"]]
    first: set[str] = set()
    for key in rng.sample(KEYS, count):
        before = _open_places(plan, start)
        choices = [
            (lockable, _open_places(plan, start, lockable)) for lockable in (*doors, *boxes) if lockable not in locks
        ]
        choices = [(lockable, after) for lockable, after in choices if after < before]
        in_turn = [
            (lockable, after)
            for lockable, after in choices
            if not {locations[other] for other in locks.values()} <= after
        ]
        if not choices:
            break  # the house is too small for more locks
        lockable, after = rng.choice(in_turn or choices)
        locks[lockable], locations[key] = key, rng.choice(sorted(after))
        first = first or before - after
    return first


def _open_places(plan: Mapping[str, Any], start: str, lock: str | None = None) -> set[str]:
    """Return the rooms and holders that can be reached without opening any lock; `lock`: an additional lock."""
    locks, rooms, waiting = {*plan["locks"], lock}, {start}, [start]
    while waiting:
        room = waiting.pop()
        for other in plan["exits"][room].values():
            if other not in rooms and "-".join(sorted((room, other))) not in locks:
                rooms.add(other)
                waiting.append(other)
    return rooms | {name for name, holder in plan["holders"].items() if holder["room"] in rooms and name not in locks}
