"""The task set `gui/transitions-v1`: two screens, before and after an action; name the action."""

from __future__ import annotations

import copy
import random
from functools import cache
from typing import Any

from agentgym import Call, Message, Task, TaskSet, seed_of

from ..generator import TaskGenerator, TaskSlot
from .layout import Layout, layout
from .words import KNOWN, UNSEEN, ScreenVocabulary

NAME = "gui/transitions-v1"
SIZES = {"train": 1_000, "validation": 100, "unseen_words": 100, "two_steps": 100}
ACTIONS = ("tick", "tab", "choose", "type", "scroll")
PROMPT = "Which action led from screen 0 to screen 1? A field that has the cursor takes what is typed."
FIRST = "Two actions led from screen 0 to screen 1. Which was the first? A later one changed the list below."


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Pairs of screens, and the action that led from one to the other, to be named.

    The seed chooses which tasks are in it.

    Held-out tasks carry the tag `unseen_words` (no text of the screen is on a training screen) or `two_steps` (a second
    action followed before the second screen, as in UIShift's k-step transitions; no training task has this).
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


def _task(rng: random.Random, slot: TaskSlot, words: ScreenVocabulary) -> Task | None:
    """Make the task; return None if the screen does not allow the action or the action changes nothing."""
    two_steps = slot.stratum == "two_steps"
    window = layout(rng, words)
    kind = rng.choice(ACTIONS[:4] if two_steps else ACTIONS)
    before = _ready(window, kind, rng)
    after = copy.deepcopy(before)
    if before is None or after is None:
        return None
    act = _act(after, kind, rng, words)
    second = _act(after, "scroll", rng, words) if two_steps else act
    if act is None or second is None or before["widgets"] == after["widgets"]:
        return None
    return Task(
        id=slot.id,
        environment="agentgym/transition-v1",
        prompt=FIRST if two_steps else PROMPT,
        parameters={"screens": [before, after], "shown": 448},
        truth={"act": act},
        split=slot.split,
        tags=(slot.stratum, kind),
        difficulty=1.0 + two_steps,
    )


def _ready(window: Layout, kind: str, rng: random.Random) -> dict[str, Any] | None:
    """Return the screen before the action, with the cursor in an empty field if the action is to type text; None if
    there is no such field.
    """
    screen = copy.deepcopy(window.screen)
    if kind == "type":
        fields = [widget for widget in screen["widgets"] if widget["kind"] == "field"]
        if not fields:
            return None
        rng.choice(fields).update(text="", on=True)
    return screen


def _act(screen: dict[str, Any], kind: str, rng: random.Random, words: ScreenVocabulary) -> list[Any] | None:
    """Apply the action to the screen. Returns: the action and its argument; None if no widget allows it."""
    widgets = {
        name: [w for w in screen["widgets"] if w["kind"] == name] for name in ("checkbox", "tab", "row", "field")
    }
    if kind == "tick" and widgets["checkbox"]:
        box = rng.choice(widgets["checkbox"])
        _switch(box, not box.get("on"))
        return ["click", list(box["box"])]
    if kind == "tab" and (others := [tab for tab in widgets["tab"] if not tab.get("on")]):
        chosen = rng.choice(others)
        for tab in widgets["tab"]:
            _switch(tab, tab is chosen)
        return ["click", list(chosen["box"])]
    if kind == "choose" and widgets["row"]:
        chosen = rng.choice(widgets["row"])
        for row in widgets["row"]:
            _switch(row, row is chosen)
        return ["click", list(chosen["box"])]
    if kind == "type" and (active := [field for field in widgets["field"] if field.get("on")]):
        active[0]["text"] = rng.choice((*words.people, *words.things))
        return ["type", active[0]["text"]]
    if kind == "scroll" and len(widgets["row"]) > 4:
        texts = [row["text"] for row in widgets["row"]]
        down, rows = rng.random() < 0.5, rng.randint(1, 3)
        for _ in range(rows):
            row_text = _new_row(rng, words, texts)
            texts = [*texts[1:], row_text] if down else [row_text, *texts[:-1]]
        for row, text in zip(widgets["row"], texts, strict=True):
            row["text"] = text
        return ["scroll", f"{rows} {'down' if down else 'up'}"]
    return None


def _switch(widget: dict[str, Any], on: bool) -> None:
    widget.pop("on", None)
    if on:
        widget["on"] = True


def _new_row(rng: random.Random, words: ScreenVocabulary, texts: list[str]) -> str:
    """Return the text of a row that was not on the screen before."""
    return next(row for row in iter(lambda: f"{rng.choice(words.things)} {rng.randint(2, 99)}", "") if row not in texts)


def oracle(task: Task) -> list[Message]:
    """Return the solution: the action that led from the first screen to the second."""
    return [_act_message(*task.truth["act"])]


def imperfect_oracle(task: Task) -> list[Message]:
    """Name an action of the right form that was not done: a click elsewhere, the other direction, another text."""
    action, argument = task.truth["act"]
    if action == "click":
        others = [widget["box"] for widget in task.parameters["screens"][0]["widgets"][1:]]
        wrong_boxes = [box for box in others if not _contains_middle(box, argument)]
        return [_act_message("click", wrong_boxes[seed_of(task.id) % len(wrong_boxes)])]
    if action == "scroll":
        rows, direction = argument.split()
        return [_act_message("scroll", f"{rows} {'up' if direction == 'down' else 'down'}")]
    return [_act_message("type", argument[::-1])]


def _contains_middle(box: list[int], target: list[int]) -> bool:
    x, y = (box[0] + box[2]) // 2, (box[1] + box[3]) // 2
    return target[0] <= x < target[2] and target[1] <= y < target[3]


def _act_message(action: str, argument: Any) -> Message:
    arguments: dict[str, Any] = {"action": action}
    if isinstance(argument, str):
        arguments["text"] = argument
    else:
        left, top, right, bottom = argument
        arguments |= {"x": (left + right) // 2, "y": (top + bottom) // 2}
    return Message("assistant", "", (Call("act", arguments),))
