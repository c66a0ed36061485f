"""Builds tech trees, each with its own names, recipes and sites, so that no recipe can be known beforehand."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from .craft_tree import TechTree

DEEPEST = 8
MAX_WORK = 70
"""Maximum work for the deepest item of a generated tree, in units; see `TechTree.work_left`."""
TRIES = 500

ADJECTIVES = """
amber ashen bitter blotted brindled chalky cinder cobbled coiled dappled dusky ember fallow feathered fennel
flecked frosted furrowed gilded glassy gritty hazel hollow knotted lichen mottled murky nettle ochre pearled
pitted rippled russet saffron scaled sedge shaded silken slaty smoky speckled tawny thorny umber veined
waxen weathered wicker willow woven
"""
NOUNS: Mapping[str, tuple[str, ...]] = {
    "raw": ("reed", "bark", "clay", "flint", "moss", "resin", "sand", "straw", "wood", "wool", "peat", "shell"),
    "ore": ("ore", "rock", "crystal", "salt", "vein stone", "shale"),
    "part": ("cord", "plank", "plate", "peg", "rod", "ring", "strap", "hinge", "gear", "brick", "board", "band"),
    "tool": ("pick", "hammer", "chisel", "saw", "drill", "wedge"),
    "bench": ("bench", "loom", "anvil", "lathe"),
    "furnace": ("furnace", "kiln", "oven"),
    "smelted": ("ingot", "glass", "bead", "tile", "bar"),
}
SITES = """
bay bluff brook cave copse dale dune fen ford glen gully heath islet marsh meadow moor quarry ridge shore
spring
"""
CONSUMED = ("raw", "ore", "part", "smelted")
"""The kinds of items that are used up to make others."""


def build(rng: random.Random, sites: int, extras: int) -> dict[str, Any]:
    """Return a tree in the form that `TechTree` reads: `1 + extras` items of each depth from 1 to DEEPEST, and raw
    items.

    Raises: ValueError if none was found in TRIES tries.
    """
    for _ in range(TRIES):
        spine = _spine(rng)
        if not {"tool", "ore", "bench", "furnace", "smelted"} <= set(spine):
            continue
        data = _Draft(rng, spine, extras).tree(rng.sample(SITES.split(), sites))
        tree = TechTree.read(data)
        try:
            if max(tree.work_left(goal, {}) for goal in tree.items) <= MAX_WORK:
                return data
        except ValueError:  # it needs more units of an item than a call may gather
            continue
    raise ValueError(f"no tree with {sites} sites and {extras} extras was found. Ask for other numbers")


def _follows(kind: str, *, furnace: bool) -> tuple[str, ...]:
    """Return the kinds of items that can need an item of this kind, and so be one level deeper.

    Args:
        furnace: whether the tree has a furnace already.
    """
    if kind == "tool":
        return ("ore",)
    if kind == "furnace":
        return ("smelted",)
    crafted = ("part", "tool", *(() if furnace else ("furnace",)))
    return crafted if kind == "bench" else (*crafted, "bench", *(("smelted",) if furnace else ()))


def _spine(rng: random.Random) -> list[str]:
    """Return the kinds of a chain of items, each of which needs the previous one."""
    kinds = ["raw"]
    while len(kinds) <= DEEPEST:
        kinds.append(rng.choice(_follows(kinds[-1], furnace="furnace" in kinds)))
    return kinds


class _Draft:
    """A tree being built. At each depth, the spine's item comes first."""

    def __init__(self, rng: random.Random, spine: list[str], extras: int) -> None:
        self._rng, self._names = rng, _names(rng)
        self.items: dict[str, dict[str, Any]] = {}
        self._consumed: list[str] = []  # items that can be parts of others
        self._furnace: str | None = None
        self._fuel = ""
        for _ in range(4):
            self._add("raw", {"by": "gather"})
        self._fuel = self._rng.choice(self._consumed)
        before, kind_before = self._consumed[0], "raw"
        for kind in spine[1:]:
            furnace = self._furnace is not None
            others = [other for other in _follows(kind_before, furnace=furnace) if other in CONSUMED]
            level = [(own, self._entry(own, before, kind_before)) for own in (kind, *rng.choices(others, k=extras))]
            names = [self._add(own, entry) for own, entry in level]  # no item needs another item of its level
            before, kind_before = names[0], kind

    def tree(self, sites: list[str]) -> dict[str, Any]:
        """Return the tree, in which each gathered item is at one or two of the sites."""
        at: dict[str, list[str]] = {site: [] for site in sites}
        for number, name in enumerate(name for name, item in self.items.items() if item["by"] == "gather"):
            first = sites[number % len(sites)]  # so that each site has something
            for site in sorted({first, self._rng.choice(sites)}):
                at[site].append(name)
        names = sorted(self.items)  # so that their order reveals nothing
        return {
            "sites": {site: sorted(at[site]) for site in sorted(at)},
            "items": {name: self.items[name] for name in names},
        }

    def _entry(self, kind: str, before: str, kind_before: str) -> dict[str, Any]:
        """Return an item of a kind that needs the previous item."""
        if kind == "ore":
            return {"by": "gather", "needs": before}
        parts = {before: self._rng.randint(1, 2)} if kind_before in CONSUMED else {}
        for other in self._rng.sample(self._consumed, self._rng.randint(1, 2)):
            parts.setdefault(other, self._rng.randint(1, 2))
        if kind == "smelted":
            needs = self._furnace
            parts.setdefault(self._fuel, 1)
        else:
            needs = before if kind_before == "bench" else None
        makes = self._rng.randint(1, 2) if kind == "part" else 1
        by = "smelt" if kind == "smelted" else "craft"
        return {
            "by": by,
            "parts": parts,
            **({"needs": needs} if needs else {}),
            **({"makes": makes} if makes > 1 else {}),
        }

    def _add(self, kind: str, entry: dict[str, Any]) -> str:
        name = next(self._names[kind])
        self.items[name] = entry
        if kind in CONSUMED:
            self._consumed.append(name)
        if kind == "furnace":
            self._furnace = name
        return name


def _names(rng: random.Random) -> dict[str, Iterator[str]]:
    """Return names by kind; no two begin with the same word."""
    adjectives = ADJECTIVES.split()
    unused = iter(rng.sample(adjectives, len(adjectives)))

    def of_kind(nouns: tuple[str, ...]) -> Iterator[str]:
        for adjective in unused:
            yield f"{adjective} {rng.choice(nouns)}"

    return {kind: of_kind(nouns) for kind, nouns in NOUNS.items()}
