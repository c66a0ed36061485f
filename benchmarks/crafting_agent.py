"""A scripted agent of `agentgym/text-craft-v1` that knows only what it looks up or a store offers."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Generator

from agentgym import Call, Message, ScriptedPolicy, Task


class UnknownRecipe(Exception):
    """A recipe must be looked up first. The argument is the item."""


def crafting_agent(task: Task) -> ScriptedPolicy:
    """Return an agent for one episode, for `EpisodeManager(crafting_agent)`."""
    thoughts: Generator[Call, str, None] | None = None

    def script(messages):
        nonlocal thoughts
        try:
            if thoughts is None:
                thoughts = think(messages[-1].text)
                call = next(thoughts)
            else:
                call = thoughts.send(messages[-1].text)
        except StopIteration:
            return Message("assistant", "Done.")
        return Message("assistant", "", (call,))

    return ScriptedPolicy(script, name="crafting agent")


def think(opening: str) -> Generator[Call, str, None]:
    """Follow an offered plan; find the rest by looking up recipes and by exploring."""
    (goal,) = re.findall(r"Get 1 (.*?)\.", opening)
    names = re.findall(r"You are at the (.*?)\. Other sites: (.*?)\.", opening)[0]
    offered = re.findall(r"To get 1 (.*?): (.*)\.", opening)
    have: Counter[str] = Counter()
    if offered:
        for call in offered[0][1].split("; "):
            yield call_of(call)
        if offered[0][0] == goal:
            return
        have.update({name: int(count) for count, name in re.findall(r"(\d+) ([a-z ]+)", (yield Call("inventory")))})
    recipes: dict[str, tuple[str, dict[str, int], str, int]] = {}
    while True:
        try:
            actions = plan(goal, recipes, have)
            break
        except UnknownRecipe as unknown:
            item = unknown.args[0]
            recipes[item] = recipe_of((yield Call("look_up", {"item": item})))
    sites: dict[str, str] = {}
    hand = ""
    unexplored = [names[0], *names[1].split(", ")]
    at = ""
    for name, item, count in actions:
        while name == "gather" and item not in sites:
            at = unexplored.pop(0)
            here = (yield Call("explore", {"site": at})).partition("Here is: ")[2]
            sites |= dict.fromkeys(here.removesuffix(".").split(", "), at)
        if name == "gather" and recipes[item][2] not in ("", hand):
            hand = recipes[item][2]
            yield Call("equip", {"item": hand})
        if name == "gather" and sites[item] != at:
            at = sites[item]
            yield Call("explore", {"site": at})
        yield Call(name, {"item": item, "count": count})


def plan(goal: str, recipes: dict, have: Counter[str]) -> list[tuple[str, str, int]]:
    """Return the actions that get one goal. Raises: UnknownRecipe."""
    stock, actions = have.copy(), []

    def get(name: str, count: int) -> None:
        if (missing := count - stock[name]) > 0:
            if name not in recipes:
                raise UnknownRecipe(name)
            by, parts, needs, makes = recipes[name]
            times = -(-missing // makes)
            if needs:
                get(needs, 1)
                stock[needs] += 1
            for part, number in parts.items():
                get(part, number * times)
            actions.append((by, name, times))
            stock[name] += times * makes
        stock[name] -= count

    get(goal, 1)
    return actions


def recipe_of(text: str) -> tuple[str, dict[str, int], str, int]:
    """Return `by`, `parts`, `needs` and `makes` from the text of `look_up`."""
    makes = int(re.match(r"(\d*)", text)[1] or 1)
    if "gathered" in text:
        needs = re.search(r"with the (.*) in hand", text)
        return "gather", {}, needs[1] if needs else "", 1
    by, parts, needs = re.search(r": (craft|smelt)ed from (.*?)(?:, while you carry the (.*))?\.$", text).groups()
    return by, {name: int(count) for count, name in re.findall(r"(\d+) ([a-z ]+)", parts)}, needs or "", makes


def call_of(text: str) -> Call:
    """Return a call as a plan writes it: `gather(item='reed', count=2)`."""
    node = ast.parse(text, mode="eval").body
    return Call(node.func.id, {keyword.arg: ast.literal_eval(keyword.value) for keyword in node.keywords})
