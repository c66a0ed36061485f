"""A tech tree as plain data: the sites of raw items, the recipes of others, and plans that lead to an item."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from math import ceil
from typing import Annotated, Literal

from pydantic import Field, model_validator

from .plain_data import PlainData

MAX_AT_ONCE = 64
"""Maximum units of an item that one call gathers or makes."""

Name = Annotated[str, Field(pattern=r"^[a-z][a-z' -]{0,39}$")]
Amount = Annotated[int, Field(ge=1, le=MAX_AT_ONCE)]
Action = tuple[str, str, int]
"""A tool, the item or site that it is called with, and the number; 1 if the tool takes no number."""


class Item(PlainData):
    """How an item is obtained.

    `by`: "gather", at a site that has it; "craft" or "smelt", from `parts`, which are used up, with `makes` units as
        the result.
    `needs`: the tool that must be in hand to gather it, or be carried to craft or smelt it; it is not used up.
    """

    by: Literal["gather", "craft", "smelt"]
    parts: dict[Name, Amount] = Field({}, max_length=8)
    needs: Name | None = None
    makes: Amount = 1

    @property
    def required(self) -> tuple[str, ...]:
        """Return all items needed to get this one."""
        return (*self.parts, *([] if self.needs is None else [self.needs]))


class TechTree(PlainData):
    """`sites`: the items to gather at each. `items`: how to obtain each. Parts are never tools too."""

    sites: dict[Name, tuple[Name, ...]] = Field(min_length=1, max_length=12)
    items: dict[Name, Item] = Field(min_length=1, max_length=100)

    @model_validator(mode="after")
    def _can_be_played(self) -> TechTree:
        at_sites = {item for items in self.sites.values() for item in items}
        tools = {item.needs for item in self.items.values()}
        for name, item in self.items.items():
            for other in item.required:
                if other not in self.items:
                    raise ValueError(f"items.{name} needs {other!r}, which is not an item")
            if item.by == "gather" and (item.parts or item.makes > 1):
                raise ValueError(f"items.{name} is gathered, so it has no parts and makes 1")
            if item.by != "gather" and not item.parts:
                raise ValueError(f"items.{name} has no parts. Give it some")
            if (item.by == "gather") != (name in at_sites):
                raise ValueError(f"items.{name}: exactly the items that are gathered must be at a site")
            if used_up := tools & item.parts.keys():
                raise ValueError(
                    f"items.{name} uses up {sorted(map(str, used_up))[0]!r}, which other items need as a tool"
                )
        if unknown := sorted(at_sites - self.items.keys()):
            raise ValueError(f"sites names {unknown[0]!r}, which is not an item")
        _ = self.depths
        return self

    @cached_property
    def depths(self) -> Mapping[str, int]:
        """Return for each item the length of its longest chain of needed items; 0 for items gathered by hand.

        Raises: ValueError for items that need each other.
        """
        depths: dict[str, int] = {}
        while len(depths) < len(self.items):
            ready = {
                name: max((1 + depths[other] for other in item.required), default=0)
                for name, item in self.items.items()
                if name not in depths and all(other in depths for other in item.required)
            }
            if not ready:
                raise ValueError(
                    f"{', '.join(sorted(self.items.keys() - depths.keys()))} cannot be made, because they need each "
                    "other"
                )
            depths |= ready
        return depths

    @cached_property
    def _deepest_first(self) -> list[str]:
        return sorted(self.items, key=lambda name: (-self.depths[name], name))

    def sites_of(self, name: str) -> list[str]:
        return [site for site, items in self.sites.items() if name in items]

    def recipe(self, name: str) -> str:
        """Describe how to get an item."""
        item = self.items[name]
        if item.by == "gather":
            return f"{name}: gathered" + (f" with the {item.needs} in hand." if item.needs else " with bare hands.")
        parts = ", ".join(f"{count} {part}" for part, count in item.parts.items())
        makes = f"{item.makes} " if item.makes > 1 else ""
        at = f", while you carry the {item.needs}" if item.needs else ""
        return f"{makes}{name}: {'crafted' if item.by == 'craft' else 'smelted'} from {parts}{at}."

    # ---- plans

    def work(self, goal: str, have: Mapping[str, int]) -> dict[str, int]:
        """Return the remaining work for one `goal`: for each item, the units to gather, or how often to make it.

        The deepest item comes first. Raises: ValueError if more than MAX_AT_ONCE of an item are needed.
        """
        demand, left = {goal: 1}, {}
        for name in self._deepest_first:
            missing = demand.get(name, 0) - have.get(name, 0)
            if missing <= 0:
                continue
            item = self.items[name]
            left[name] = times = ceil(missing / item.makes)
            if times > MAX_AT_ONCE:
                raise ValueError(f"{goal} needs {times} of {name}, but at most {MAX_AT_ONCE} are allowed")
            for part, count in item.parts.items():
                demand[part] = demand.get(part, 0) + times * count
            if item.needs is not None:
                demand[item.needs] = 1
        return left

    def work_left(self, goal: str, have: Mapping[str, int]) -> int:
        """Return the remaining work for one `goal`: units to gather plus times to make something."""
        return sum(self.work(goal, have).values())

    def plan(self, goal: str, have: Mapping[str, int], site: str, hand: str | None) -> Iterator[Action]:
        """Yield actions that lead to one `goal`: planned backwards, in order from the shallowest item.

        `have`: the items that the player has. `site`: where the player is. `hand`: the tool in hand.
        """
        left = self.work(goal, have)
        for name in sorted(left, key=lambda name: (self.depths[name], self.items[name].by != "gather", name)):
            item, times = self.items[name], left[name]
            if item.by != "gather":
                yield item.by, name, times
                continue
            if item.needs is not None and hand != item.needs:
                hand = item.needs
                yield "equip", hand, 1
            if name not in self.sites[site]:
                site = self.sites_of(name)[0]
                yield "explore", site, 1
            yield "gather", name, times

    def essential(self, goal: str, actions: Sequence[Action], site: str) -> list[Action]:
        """Return the actions that obtained one `goal` from nothing, without useless actions.

        Args:
            site: the site where the actions began.
        """
        demand, useful = {goal: 1}, list[Action]()
        for name, what, count in reversed(actions):
            if name in ("explore", "equip"):
                useful.append((name, what, count))
            elif (missing := demand.get(what, 0)) > 0:
                item = self.items[what]
                times = min(count, ceil(missing / item.makes))
                demand[what] = missing - times * item.makes
                useful.append((name, what, times))
                for part, number in item.parts.items():
                    demand[part] = demand.get(part, 0) + times * number
                if item.needs is not None:
                    demand[item.needs] = max(1, demand.get(item.needs, 0))
        return self._without_detours(useful[::-1], site)

    def _without_detours(self, actions: Sequence[Action], site: str) -> list[Action]:
        """Move each walk, and each equipping of a tool, to just before the gathering that needs it."""
        direct, at, hand, next_site, next_hand = list[Action](), "", "", site, ""
        for name, what, count in actions:
            if name == "explore":
                next_site = what
            elif name == "equip":
                next_hand = what
            else:
                if name == "gather" and self.items[what].needs and next_hand != hand:
                    direct.append(("equip", hand := next_hand, 1))
                if name == "gather" and next_site != at:
                    direct.append(("explore", at := next_site, 1))
                direct.append((name, what, count))
        return direct


@lru_cache(maxsize=64)
def tree_of(text: str) -> TechTree:
    """Return the tree of a JSON text. Raises: ValueError for an invalid one."""
    return TechTree.read(json.loads(text))
