"""A game of interactive fiction as plain data: rooms, things, rules; commands, and shortest ways to its goal."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from .plain_data import PlainData

YOU, NOWHERE = "you", "nowhere"
BUILT_IN = ("look", "inventory", "go", "take", "examine")
MAX_STATES = 20_000
"""Maximum number of states that a search visits."""
_ARTICLES = re.compile(r"\b(?:the|a|an|my)\b")

Name = Annotated[str, Field(pattern=r"^[a-z][a-z' -]{0,79}$")]
Text = Annotated[str, Field(max_length=500)]


class Condition(PlainData):
    """A condition that must hold or, with `yes` false, must not hold.

    `kind`: `at`, the player is in the room `name`; `have`, the player carries the thing `name`; `here`, the thing is
    carried or in the player's room; `flag`, the flag `name` is set.
    """

    kind: Literal["at", "have", "here", "flag"]
    name: Name
    yes: bool = True


class Effect(PlainData):
    """A change that a command makes.

    `kind`: `take`, the player then carries the thing `name`; `appear`, it is in the player's room; `remove`, it is
    nowhere; `go`, the player is in the room; `set` and `unset`, the flag is set or not.
    """

    kind: Literal["take", "appear", "remove", "go", "set", "unset"]
    name: Name


class Exit(PlainData):
    """A way to another room, open while its conditions hold; otherwise the game prints `otherwise`."""

    to: Name
    needs: tuple[Condition, ...] = Field((), max_length=8)
    otherwise: Text = "You cannot go there."


class Room(PlainData):
    """A room: its description, and its exits by direction."""

    text: Text = ""
    exits: dict[Name, Exit] = Field({}, max_length=8)


class Thing(PlainData):
    """A thing: its first place (a room, `you` or `nowhere`), its description, and whether it can be carried."""

    at: Name
    text: Text = ""
    portable: bool = True


class FictionRule(PlainData):
    """A command that the game defines: if `needs` hold, it has `effects` and prints `text`, else `otherwise`."""

    command: Name
    needs: tuple[Condition, ...] = Field((), max_length=8)
    effects: tuple[Effect, ...] = Field((), max_length=8)
    text: Text = "Done."
    otherwise: Text = "That does not work."


class FictionState(NamedTuple):
    """The changing part: the player's room, the things' places in the game's order, and the flags that are set."""

    at: str
    places: tuple[str, ...]
    flags: frozenset[str] = frozenset()


class Game(PlainData):
    """A whole game. Every name in it must be one of its rooms or things; the flags are those that effects set.

    Commands: look, inventory, go DIRECTION, take THING, examine THING, and those of `rules`. Things cannot be dropped,
    and the player can carry all of them at once.
    """

    start: Name
    rooms: dict[Name, Room] = Field(min_length=1, max_length=30)
    things: dict[Name, Thing] = Field({}, max_length=40)
    rules: tuple[FictionRule, ...] = Field((), max_length=60)
    goal: tuple[Condition, ...] = Field(min_length=1, max_length=8)

    @model_validator(mode="after")
    def _knows_its_names(self) -> Game:
        def check(kind: str, name: str, where: str) -> None:
            if kind in ("at", "go") and name not in self.rooms:
                raise ValueError(
                    f"{where} names the room {name!r}, which does not exist. Rooms are: {', '.join(self.rooms)}"
                )
            if kind in ("have", "here", "take", "appear", "remove") and name not in self.things:
                raise ValueError(
                    f"{where} names the thing {name!r}, which does not exist. Things are: "
                    f"{', '.join(self.things) or 'none'}"
                )
            if kind == "flag" and name not in flags:
                raise ValueError(f"{where} reads the flag {name!r}, which no rule sets")

        for name in (*self.rooms, *self.things):
            if name != normal(name):
                raise ValueError(f"{name!r} contains an article, but commands leave articles out")
        flags = {effect.name for rule in self.rules for effect in rule.effects if effect.kind == "set"}
        check("at", self.start, "start")
        for name, thing in self.things.items():
            if thing.at not in (YOU, NOWHERE):
                check("at", thing.at, f"things.{name}")
        for room, each in self.rooms.items():
            for way, passage in each.exits.items():
                check("at", passage.to, f"rooms.{room}.exits.{way}")
                for condition in passage.needs:
                    check(condition.kind, condition.name, f"rooms.{room}.exits.{way}")
        for rule in self.rules:
            parts: tuple[Condition | Effect, ...] = (*rule.needs, *rule.effects)
            for part in parts:
                check(part.kind, part.name, f"the rule {rule.command!r}")
        for condition in self.goal:
            check(condition.kind, condition.name, "goal")
        for rule in self.rules:
            if normal(rule.command).split(" ")[0] in BUILT_IN:
                raise ValueError(f"the rule {rule.command!r} begins with a command that every game already has")
        if len({normal(rule.command) for rule in self.rules}) < len(self.rules):
            raise ValueError("two rules have the same command")
        return self

    # ---- state

    @property
    def beginning(self) -> FictionState:
        return FictionState(self.start, tuple(thing.at for thing in self.things.values()))

    def location(self, state: FictionState, thing: str) -> str:
        return state.places[self._position[thing]]

    def holds(self, condition: Condition, state: FictionState) -> bool:
        """Return whether a condition is met."""
        if condition.kind == "at":
            met = state.at == condition.name
        elif condition.kind == "flag":
            met = condition.name in state.flags
        else:
            location = self.location(state, condition.name)
            met = location == YOU or (condition.kind == "here" and location == state.at)
        return met == condition.yes

    def all_hold(self, conditions: tuple[Condition, ...], state: FictionState) -> bool:
        return all(self.holds(condition, state) for condition in conditions)

    def is_solved(self, state: FictionState) -> bool:
        return self.all_hold(self.goal, state)

    # ---- commands

    def do(self, command: str, state: FictionState) -> tuple[FictionState, str]:
        """Carry out a command. Returns: the next state, and the text to print. Raises: ValueError with the reason."""
        words = normal(command)
        if (rule := self._rules.get(words)) is not None:
            if not self.all_hold(rule.needs, state):
                raise ValueError(rule.otherwise)
            return self._with(rule.effects, state), rule.text
        verb, _, rest = words.partition(" ")
        if words == "look":
            return state, self.look(state)
        if words == "inventory":
            return state, f"You carry: {', '.join(self._at(YOU, state)) or 'nothing'}."
        if verb == "go":
            passage = self.rooms[state.at].exits.get(rest)
            if passage is None:
                raise ValueError(f"No way leads {rest[:40] or 'there'}.")
            if not self.all_hold(passage.needs, state):
                raise ValueError(passage.otherwise)
            after = state._replace(at=passage.to)
            return after, self.look(after)
        if verb in ("take", "examine"):
            if rest not in self.things or self.location(state, rest) not in (YOU, state.at):
                raise ValueError(f"There is no {rest[:40] or 'such thing'} here.")
            if verb == "examine":
                return state, self.things[rest].text or "There is nothing special about it."
            if self.location(state, rest) == YOU:
                raise ValueError(f"You carry the {rest} already.")
            if not self.things[rest].portable:
                raise ValueError(f"The {rest} cannot be carried.")
            return self._moved(state, rest, YOU), f"You take the {rest}."
        raise ValueError(f"I do not understand {command[:40]!r}. Commands are: {self.commands()}.")

    def commands(self) -> str:
        """Return all commands as one text."""
        own = [rule.command for rule in self.rules]
        return ", ".join(["look", "inventory", "go DIRECTION", "take THING", "examine THING", *own])

    def look(self, state: FictionState) -> str:
        room = self.rooms[state.at]
        here, ways = self._at(state.at, state), sorted(room.exits)
        lines = [f"You are in the {state.at}.", room.text, f"You see: {', '.join(here)}." if here else ""]
        return " ".join([line for line in lines if line] + ([f"Ways: {', '.join(ways)}."] if ways else []))

    # ---- search

    def commands_left(self, state: FictionState | None = None) -> int | None:
        """Return the number of commands in the shortest way from a state to the goal; None without a way.

        Args:
            state: a state that commands can reach; by default the initial state.
        Raises: ValueError for a game with more than MAX_STATES states.
        """
        return self._commands_left.get(self._reduced(self.beginning if state is None else state))

    def solution(self) -> list[str] | None:
        """Return the commands of a shortest way to the goal; None without a way. Raises: as `commands_left`."""
        state, commands = self._reduced(self.beginning), []
        if (left := self.commands_left()) is None:
            return None
        for remaining in reversed(range(left)):
            steps = self._steps(state)
            command, state = next(step for step in steps if self._commands_left.get(step[1]) == remaining)
            commands.append(command)
        return commands

    @cached_property
    def _commands_left(self) -> Mapping[FictionState, int]:
        """Return the commands left for every reachable state with a way to the goal.

        All states are found by searching forward; then the distances are found by searching back from the goal.
        """
        beginning = self._reduced(self.beginning)
        before: dict[FictionState, list[FictionState]] = {beginning: []}
        queue, left = deque([beginning]), {}
        while queue:
            state = queue.popleft()
            if self.is_solved(state):
                left[state] = 0
                continue
            for _, after in self._steps(state):
                if after not in before:
                    before[after] = []
                    queue.append(after)
                before[after].append(state)
            if len(before) > MAX_STATES:
                raise ValueError(f"it has more than {MAX_STATES:,} states. Use fewer rooms, things or rules")
        queue.extend(left)
        while queue:
            state = queue.popleft()
            for earlier in before[state]:
                if earlier not in left:
                    left[earlier] = left[state] + 1
                    queue.append(earlier)
        return left

    def _reduced(self, state: FictionState) -> FictionState:
        """Return the state without the places of things that no condition names."""
        places = zip(self.things, state.places, strict=True)
        return state._replace(places=tuple(at if thing in self._requested else NOWHERE for thing, at in places))

    def _steps(self, state: FictionState) -> Iterator[tuple[str, FictionState]]:
        """Yield the commands that change a reduced state, and the reduced states after them."""
        for way, passage in self.rooms[state.at].exits.items():
            if self.all_hold(passage.needs, state):
                yield f"go {way}", state._replace(at=passage.to)
        for thing in self._requested:
            if self.location(state, thing) == state.at and self.things[thing].portable:
                yield f"take {thing}", self._moved(state, thing, YOU)
        for rule in self.rules:
            if self.all_hold(rule.needs, state):
                yield rule.command, self._reduced(self._with(rule.effects, state))

    def _with(self, effects: tuple[Effect, ...], state: FictionState) -> FictionState:
        for effect in effects:
            if effect.kind == "go":
                state = state._replace(at=effect.name)
            elif effect.kind == "set":
                state = state._replace(flags=state.flags | {effect.name})
            elif effect.kind == "unset":
                state = state._replace(flags=state.flags - {effect.name})
            else:
                location = {"take": YOU, "appear": state.at, "remove": NOWHERE}[effect.kind]
                state = self._moved(state, effect.name, location)
        return state

    def _moved(self, state: FictionState, thing: str, location: str) -> FictionState:
        number = self._position[thing]
        return state._replace(places=(*state.places[:number], location, *state.places[number + 1 :]))

    def _at(self, location: str, state: FictionState) -> list[str]:
        return [thing for thing, each in zip(self.things, state.places, strict=True) if each == location]

    @cached_property
    def _position(self) -> Mapping[str, int]:
        return {thing: number for number, thing in enumerate(self.things)}

    @cached_property
    def _rules(self) -> Mapping[str, FictionRule]:
        return {normal(rule.command): rule for rule in self.rules}

    @cached_property
    def _requested(self) -> tuple[str, ...]:
        """Return the things that a condition names."""
        conditions = [*self.goal, *(condition for rule in self.rules for condition in rule.needs)]
        conditions += [c for room in self.rooms.values() for passage in room.exits.values() for c in passage.needs]
        named = {condition.name for condition in conditions if condition.kind in ("have", "here")}
        return tuple(thing for thing in self.things if thing in named)


def normal(command: str) -> str:
    """Return a command in lower case, without articles and punctuation."""
    return " ".join(_ARTICLES.sub(" ", re.sub(r"[^a-z' -]", " ", command[:200].casefold())).split())


@lru_cache(maxsize=16)  # shared, because a game stores the results of its search
def game_of(text: str) -> Game:
    """Return the game of a JSON text. Raises: ValueError for an invalid one."""
    return Game.read(json.loads(text))
