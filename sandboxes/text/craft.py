"""`agentgym/text-craft-v1`: gather, craft and smelt an item of a tech tree whose recipes must be looked up."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field

from agentgym import Call, Message, ResultStatus, Split, Task, ToolError, Trajectory, seed_of, tool

from .base import Axis, Puzzle, Script, TextEnvironment
from .craft_builder import DEEPEST, build
from .craft_tree import MAX_AT_ONCE, Action, TechTree, tree_of

Count = Annotated[int, Field(ge=1, le=MAX_AT_ONCE, description="How many times.")]
MAKING = ("gather", "craft", "smelt")
ACTING = ("explore", "equip", *MAKING)


class Craft(TextEnvironment):
    """A few sites, and a tech tree with invented names and recipes. In memory, so nothing is isolated.

    Task parameters: `tree`, as for `craft_tree.TechTree`; `start`, a site; `goal`, the item to get.
    Source: Ghost in the Minecraft, arXiv:2305.17144, has the structured actions, the text base of recipes, and goals
    ordered by their depth in the tech tree. Names, trees and rules are our own.
    """

    task_set = "text/craft-v1"

    id = "agentgym/text-craft-v1"
    _tree: TechTree
    _goal: str
    _work: int  # work for the goal from nothing
    axes = {
        "depth": Axis(1, DEEPEST, "the depth of the goal in the tree"),
        "tree": Axis(0, 999_999, "the number of the tree; 0: one of its own"),
        "sites": Axis(2, 6, "sites"),
        "extras": Axis(1, 3, "items of each depth beside the first"),
    }
    levels = tuple({"depth": depth, "sites": 4, "extras": 2} for depth in range(1, DEEPEST + 1))

    def begin(self) -> dict[str, Any]:
        start, self._goal = self.parameter("start", str), self.parameter("goal", str)
        try:
            self._tree = tree_of(json.dumps(self.parameter("tree", dict)))
            if self._goal not in self._tree.items:
                raise ValueError(f"the goal {self._goal!r} is not an item")
            if start not in self._tree.sites:
                raise ValueError(f"the start {start!r} is not a site. Sites are: {', '.join(self._tree.sites)}")
            self._work = self._tree.work_left(self._goal, {})
        except (ValueError, RecursionError) as error:
            raise self.refuse(f"the tree cannot be used: {error}.") from error
        return {"at": start, "hand": None, "have": {}, "explored": [start], "looked_up": []}

    def solved(self) -> bool:
        return self._goal in self.state["have"]

    def nearness(self) -> float:
        """Return the share of the work for the goal that is done. Work counts units to gather and things to make."""
        return 1.0 - self._tree.work_left(self._goal, self.state["have"]) / self._work

    @tool(inline=True)
    def explore(self, site: str) -> str:
        """Go to a site, and see what can be gathered there."""
        self.check_open()
        name = _name(site)
        if name not in self._tree.sites:
            raise ToolError(f"There is no site {name[:40]!r}. Sites are: {', '.join(self._tree.sites)}.")
        self.state["at"] = name
        self._note("explored", name)
        return f"You are at the {name}. Here is: {', '.join(self._tree.sites[name]) or 'nothing'}."

    @tool(inline=True)
    def gather(self, item: str, count: Count = 1) -> str:
        """Gather an item that is where you are. Some need a tool in hand."""
        name = self._item(item)
        if name not in self._tree.sites[self.state["at"]]:
            raise ToolError(f"There is no {name} at the {self.state['at']}.")
        needs = self._tree.items[name].needs
        if needs is not None and self.state["hand"] != needs:
            raise ToolError(f"The {name} is gathered with the {needs} in hand.")
        return self._get(name, count)

    @tool(inline=True)
    def craft(self, item: str, count: Count = 1) -> str:
        """Craft an item, so many times, from what you carry."""
        return self._make("craft", item, count)

    @tool(inline=True)
    def smelt(self, item: str, count: Count = 1) -> str:
        """Smelt an item, so many times, from what you carry."""
        return self._make("smelt", item, count)

    @tool(inline=True)
    def equip(self, item: str) -> str:
        """Take something that you carry in hand."""
        name = self._item(item)
        if name not in self.state["have"]:
            raise ToolError(f"You have no {name}.")
        self.state["hand"] = name
        return f"The {name} is in your hand."

    @tool(inline=True)
    def inventory(self) -> str:
        """What you carry, what is in your hand, and where you are."""
        carried = ", ".join(f"{count} {name}" for name, count in sorted(self.state["have"].items()))
        return f"You carry: {carried or 'nothing'}. In hand: {self.state['hand'] or 'nothing'}. At: {self.state['at']}."

    @tool(inline=True)
    def look_up(self, item: str) -> str:
        """Read how an item is got."""
        name = self._item(item)
        self._note("looked_up", name)
        return self._tree.recipe(name)

    def _item(self, item: str) -> str:
        """Find an item. Raises: ToolError for a name that no item has."""
        self.check_open()
        name = _name(item)
        if name not in self._tree.items:
            raise ToolError(f"There is no item {name[:40]!r}.")
        return name

    def _make(self, by: str, item: str, count: int) -> str:
        name, have = self._item(item), self.state["have"]
        recipe = self._tree.items[name]
        if recipe.by != by:
            raise ToolError(f"You cannot {by} it. {self._tree.recipe(name)}")
        used = {part: number * count for part, number in recipe.parts.items()}
        if recipe.needs is not None and recipe.needs not in have:
            raise ToolError(f"You must carry the {recipe.needs} for that.")
        if short := [
            f"{number - have.get(part, 0)} {part}" for part, number in used.items() if number > have.get(part, 0)
        ]:
            raise ToolError(f"You lack {', '.join(short)}.")
        for part, number in used.items():
            have[part] -= number
            if not have[part]:
                del have[part]
        return self._get(name, count * recipe.makes)

    def _get(self, name: str, count: int) -> str:
        have = self.state["have"]
        have[name] = have.get(name, 0) + count
        self.settle()
        return f"You have {have[name]} {name}." + (" That was the goal." if self.solved() else "")

    def _note(self, kind: str, name: str) -> None:
        self.state[kind] = sorted({*self.state[kind], name})

    @classmethod
    def invent(cls, rng: random.Random, axes: Mapping[str, int]) -> Puzzle:
        tree = cls.tree(axes["tree"] or rng.randint(1_000_000, 2**62), axes["sites"], axes["extras"])
        goal = rng.choice([name for name, depth in cls.depths_in(tree).items() if depth == axes["depth"]])
        return _puzzle(tree, goal, rng.choice(sorted(tree["sites"])))

    @staticmethod
    @lru_cache(maxsize=256)
    def tree(number: int, sites: int = 4, extras: int = 2) -> dict[str, Any]:
        """Return the generated tree with this number. The object is shared: do not change it."""
        return build(random.Random(seed_of("craft tree", number, sites, extras)), sites, extras)

    @staticmethod
    def depths_in(tree: Mapping[str, Any]) -> dict[str, int]:
        """Return the depth of each item, in the order of the items' names. Raises: ValueError for an invalid tree."""
        return dict(sorted(tree_of(json.dumps(tree)).depths.items()))

    @classmethod
    def task_of(cls, name: str, tree: Mapping[str, Any], goal: str, start: str, *, split: Split = "train") -> Task:
        """Return the task of getting one `goal` of a tree, starting at a site. `name`: id of the task.

        Raises: ValueError for an invalid tree.
        """
        puzzle, depth = _puzzle(tree, goal, start), cls.depths_in(tree)[goal]
        return Task(
            name,
            cls.id,
            puzzle.prompt,
            parameters=puzzle.parameters,
            truth=puzzle.truth,
            split=split,
            tags=(f"depth_{depth}",),
            difficulty=float(depth),
        )

    # ---- what an episode teaches (see agentgym.methods.knowledge)

    @staticmethod
    def goals_of(task: Task) -> dict[str, str]:
        """Return the goal, then the items that it needs, the deepest first."""
        tree = _tree(task)
        needed = tree.work(task.parameters["goal"], {})  # begins with the goal
        return {_key(task, name): f"get 1 {name}" for name in needed if tree.items[name].required}

    @staticmethod
    def plans_of(trajectory: Trajectory) -> dict[str, list[Call]]:
        """Return for each item that was obtained the episode's actions that helped to obtain the first unit of it."""
        task, tree = trajectory.task, _tree(trajectory.task)
        got, actions = dict[str, list[Call]](), list[Action]()
        for turn in trajectory.turns:
            for call, result in zip(turn.calls, turn.results, strict=False):
                if result.status is not ResultStatus.OK or call.name not in ACTING:
                    continue
                arguments = Craft.tools[call.name].validate(call.arguments)  # "2" is a number, too
                what = _name(arguments["site" if call.name == "explore" else "item"])
                actions.append((call.name, what, arguments.get("count", 1)))
                if call.name in MAKING and what not in got and tree.items[what].required:
                    useful = tree.essential(what, actions, task.parameters["start"])
                    got[what] = [_call(*action) for action in useful]
        return {_key(task, what): calls for what, calls in got.items()}

    # ---- players

    @staticmethod
    def oracle(task: Task) -> Script:
        """Plan backwards from the goal; the truth is not read."""
        return _player(_actions(task))

    @staticmethod
    def imperfect_oracle(task: Task) -> Script:
        """Follow a plan correctly, but give up part of the way."""
        actions = _actions(task)
        return _player(actions[: random.Random(seed_of("imperfect", task.id)).randrange(len(actions))])


def _puzzle(tree: Mapping[str, Any], goal: str, start: str) -> Puzzle:
    others = ", ".join(site for site in tree["sites"] if site != start)
    prompt = f"Get 1 {goal}. You carry nothing. You are at the {start}. Other sites: {others}."
    plan = [list(action) for action in tree_of(json.dumps(tree)).plan(goal, {}, start, None)]
    return Puzzle(prompt, {"tree": dict(tree), "start": start, "goal": goal}, {"plan": plan})


def _name(text: str) -> str:
    return " ".join(text[:200].casefold().split()).removeprefix("the ")


def _tree(task: Task) -> TechTree:
    return tree_of(json.dumps(task.parameters["tree"]))


def _key(task: Task, name: str) -> str:
    """Return a name for an item of the task's tree that no item of another tree has."""
    text = json.dumps(task.parameters["tree"], sort_keys=True)
    return f"{name} of {hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"


def _actions(task: Task) -> list[Call]:
    actions = _tree(task).plan(task.parameters["goal"], {}, task.parameters["start"], None)
    return [_call(*action) for action in actions]


def _call(name: str, what: str, count: int) -> Call:
    arguments = {"site": what} if name == "explore" else {"item": what}
    return Call(name, arguments | ({"count": count} if count > 1 else {}))


def _player(actions: Sequence[Call]) -> Script:
    def script(messages: Sequence[Message]) -> Message:
        done = Counter(message.role for message in messages)["assistant"]
        return Message("assistant", "", (actions[done],)) if done < len(actions) else Message("assistant", "Done.")

    return script
