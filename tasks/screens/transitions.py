"""The task set `gui/transitions-v1`: a screen before and after; which action was it? Made by doing the action."""

from __future__ import annotations

import copy
import random
from functools import cache
from typing import Any

from agentgym.messages import Call, Message
from agentgym.task import Task, TaskSet, seed_of

from ..generator import TaskGenerator, TaskSlot
from .layout import Layout, layout
from .words import KNOWN, UNSEEN, Words

NAME = "gui/transitions-v1"
SIZES = {"train": 1_000, "validation": 100, "unseen_words": 100, "two_steps": 100}
ACTIONS = ("tick", "tab", "choose", "type", "scroll")
PROMPT = "Which action led from screen 0 to screen 1? A field that has the cursor takes what is typed."
FIRST = "Two actions led from screen 0 to screen 1. Which was the first? A later one changed the list below."


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Build the task set; the seed chooses which tasks are in it.

    Held-out tasks carry the tag `unseen_words` (nothing on the screen is written on a training screen) or `two_steps`
    (a second action followed, as UIShift's k-step transitions have it; never trained on).
    """

    draw = TaskGenerator(NAME, SIZES, seed, key=None).draw
    return TaskSet(
        NAME,
        {
            "train": draw("train", _task, KNOWN),
            "validation": draw("validation", _task, KNOWN),
            "held_out": [*draw("unseen_words", _task, UNSEEN), *draw("two_steps", _task, KNOWN)],
        },
        oracle=oracle,
        imperfect_oracle=imperfect_oracle,
    )


def _task(rng: random.Random, slot: TaskSlot, words: Words) -> Task | None:
    """A task, or None where the screen does not allow the action, or it changes nothing."""
    two = slot.stratum == "two_steps"
    made = layout(rng, words)
    kind = rng.choice(ACTIONS[:4] if two else ACTIONS)
    before = _ready(made, kind, rng)
    after = copy.deepcopy(before)
    if before is None or after is None:
        return None
    act = _act(after, kind, rng, words)
    second = _act(after, "scroll", rng, words) if two else act
    if act is None or second is None or before["widgets"] == after["widgets"]:
        return None
    return Task(
        id=slot.id,
        environment="agentgym/transition-v1",
        prompt=FIRST if two else PROMPT,
        parameters={"screens": [before, after], "shown": 448},
        truth={"act": act},
        split=slot.split,
        tags=(slot.stratum, kind),
        difficulty=1.0 + two,
    )


def _ready(made: Layout, kind: str, rng: random.Random) -> dict[str, Any] | None:
    """The screen before the action: of what is typed, the cursor already stands in an empty field."""
    screen = copy.deepcopy(made.screen)
    if kind == "type":
        fields = [widget for widget in screen["widgets"] if widget["kind"] == "field"]
        if not fields:
            return None
        rng.choice(fields).update(text="", on=True)
    return screen


def _act(screen: dict[str, Any], kind: str, rng: random.Random, words: Words) -> list[Any] | None:
    """Do the action to the screen. Returns: what it was, None if there is nothing to do it to."""
    of = {name: [w for w in screen["widgets"] if w["kind"] == name] for name in ("checkbox", "tab", "row", "field")}
    if kind == "tick" and of["checkbox"]:
        box = rng.choice(of["checkbox"])
        _turn(box, not box.get("on"))
        return ["click", list(box["box"])]
    if kind == "tab" and (others := [tab for tab in of["tab"] if not tab.get("on")]):
        chosen = rng.choice(others)
        for tab in of["tab"]:
            _turn(tab, tab is chosen)
        return ["click", list(chosen["box"])]
    if kind == "choose" and of["row"]:
        chosen = rng.choice(of["row"])
        for row in of["row"]:
            _turn(row, row is chosen)
        return ["click", list(chosen["box"])]
    if kind == "type" and (active := [field for field in of["field"] if field.get("on")]):
        active[0]["text"] = rng.choice((*words.people, *words.things))
        return ["type", active[0]["text"]]
    if kind == "scroll" and len(of["row"]) > 4:
        texts = [row["text"] for row in of["row"]]
        down, rows = rng.random() < 0.5, rng.randint(1, 3)
        for _ in range(rows):
            more = _more(rng, words, texts)
            texts = [*texts[1:], more] if down else [more, *texts[:-1]]
        for row, text in zip(of["row"], texts, strict=True):
            row["text"] = text
        return ["scroll", f"{rows} {'down' if down else 'up'}"]
    return None


def _turn(widget: dict[str, Any], on: bool) -> None:
    widget.pop("on", None)
    if on:
        widget["on"] = True


def _more(rng: random.Random, words: Words, shown: list[str]) -> str:
    """A row that was not on the screen before."""
    return next(row for row in iter(lambda: f"{rng.choice(words.things)} {rng.randint(2, 99)}", "") if row not in shown)


def oracle(task: Task) -> list[Message]:
    """Says the action that was done."""
    return [_acting(*task.truth["act"])]


def imperfect_oracle(task: Task) -> list[Message]:
    """Says an action of the right form that was not done: a click somewhere else, or the other way."""
    action, argument = task.truth["act"]
    if action == "click":
        others = [widget["box"] for widget in task.parameters["screens"][0]["widgets"][1:]]
        away = [box for box in others if not _near(box, argument)]
        return [_acting("click", away[seed_of(task.id) % len(away)])]
    if action == "scroll":
        rows, way = argument.split()
        return [_acting("scroll", f"{rows} {'up' if way == 'down' else 'down'}")]
    return [_acting("type", argument[::-1])]


def _near(box: list[int], other: list[int]) -> bool:
    x, y = (box[0] + box[2]) // 2, (box[1] + box[3]) // 2
    return other[0] <= x < other[2] and other[1] <= y < other[3]


def _acting(action: str, argument: Any) -> Message:
    arguments: dict[str, Any] = {"action": action}
    if isinstance(argument, str):
        arguments["text"] = argument
    else:
        left, top, right, bottom = argument
        arguments |= {"x": (left + right) // 2, "y": (top + bottom) // 2}
    return Message("assistant", "", (Call("act", arguments),))
