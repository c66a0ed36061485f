"""The task set `web/forms-v1`: one page, one to three actions, for policies that are new to reading pages."""

# ruff: noqa: SIM905 - a list of words is easier to read as one string that is split

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from agentgym import Task, TaskSet

from ..generator import TaskGenerator, TaskSlot
from .oracle import imperfect_oracle, oracle
from .plan import TaskPlan, button, chosen, done, typed
from .task_set import truth_of

NAME, ENVIRONMENT = "web/forms-v1", "agentgym/web-form-v1"
SIZES = {"train": 2_000, "validation": 100, "unseen_pages": 200, "unseen_values": 100}
BUTTONS = tuple(
    """
    Save Send Cancel Next Print Close Delete Copy Apply Back Book Clear Confirm Continue Edit Export Finish Hide
    Import Join Leave Move Open Order Pay Publish Reset Search Share Submit Undo Upload
    """.split()
)
FIELDS = tuple(
    """
    Name City Street Colour Team Code Country Room Title Topic Label Owner Place Guest Brand Model Region Sender
    Station Group
    """.split()
)
VALUES = tuple(
    """
    Mira Berlin Jonas Oslo Ada Paris Leon Turin Nora Delft Tom Lima Ines Graz Otto Bergen Vera Porto Hugo Krakow
    Lena Madrid Oscar Toledo Rosa Verona Dora Granada Karl Bremen Selma Dallas Pedro Malmo Greta Tirana Viktor
    Nantes Simon Ankara
    """.split()
)
HELD_OUT_VALUES = tuple(
    """
    Marta Lisbon Roman Torino Adele Parma Lorenz Odessa Nina Denver Teresa Lyon Emil Grado Orlan Bernau
    """.split()
)


@cache
def forms_task_set(seed: int = 0) -> TaskSet:
    """One page with one to three actions to be done, for policies that are new to reading pages.

    The seed chooses which tasks are in it.

    Held-out tasks carry the tag `unseen_pages` (values of the training tasks, on pages that no training task has) or
    `unseen_values` (values that no training task has).
    """
    kinds_and_values = {
        "unseen_pages": (_KINDS, VALUES),
        "unseen_values": (_KINDS.keys() - {"press"}, HELD_OUT_VALUES),
        "validation": (_KINDS, VALUES),
        "train": (_KINDS, VALUES),
    }
    splits = TaskGenerator(NAME, SIZES, seed).splits(_task, kinds_and_values)
    return TaskSet(NAME, splits, oracle=oracle, imperfect_oracle=imperfect_oracle)


def _task(rng: random.Random, slot: TaskSlot, kinds: Iterable[str], values: Sequence[str]) -> Task:
    kind = rng.choice(sorted(kinds))
    data, plan = _KINDS[kind](rng, values)
    return Task(
        id=slot.id,
        environment=ENVIRONMENT,
        prompt=plan.prompt,
        parameters={"site": "form", "data": data, "viewport": [400, 300]},
        truth=truth_of(plan),
        split=slot.split,
        tags=(kind, *slot.tags),
        difficulty=float(len(plan.steps) - 1),
    )


def _page(rng: random.Random, kinds: Sequence[str], values: Sequence[str]) -> dict[str, Any]:
    labels = rng.sample(FIELDS, len(kinds))
    fields = []
    for kind, label in zip(kinds, labels, strict=True):
        field: dict[str, Any] = {"kind": kind, "name": label.lower(), "label": label}
        fields.append({**field, "options": rng.sample(values, 3)} if kind == "choice" else field)
    return {"title": "Form", "fields": fields, "buttons": rng.sample(BUTTONS, 3)}


def _sent(pressed: str, **held: str) -> dict[str, Any]:
    return {"sent": [{"button": pressed, **held}]}


def _press(rng: random.Random, values: Sequence[str]) -> tuple[dict[str, Any], TaskPlan]:
    data = _page(rng, ("text",), values)
    right, wrong, _ = rng.sample(data["buttons"], 3)
    return data, TaskPlan(f"Press {right}.", (button(right), done()), _sent(right), wrong=(button(wrong), done()))


def _type(rng: random.Random, values: Sequence[str]) -> tuple[dict[str, Any], TaskPlan]:
    data = _page(rng, ("text", "text"), values)
    field, wrong_field = rng.sample(data["fields"], 2)
    press, value = rng.choice(data["buttons"]), rng.choice(values)
    return data, TaskPlan(
        f"Write {value} as {field['label']} and press {press}.",
        (typed(field["label"], value), button(press), done()),
        _sent(press, **{field["name"]: value}),
        wrong=(typed(wrong_field["label"], value), button(press), done()),
    )


def _choose(rng: random.Random, values: Sequence[str]) -> tuple[dict[str, Any], TaskPlan]:
    data = _page(rng, ("choice",), values)
    field, press = data["fields"][0], rng.choice(data["buttons"])
    value, wrong, _ = rng.sample(field["options"], 3)
    return data, TaskPlan(
        f"Choose {value} as {field['label']} and press {press}.",
        (chosen(field["label"], value), button(press), done()),
        _sent(press, **{field["name"]: value}),
        wrong=(chosen(field["label"], wrong), button(press), done()),
    )


def _type_two(rng: random.Random, values: Sequence[str]) -> tuple[dict[str, Any], TaskPlan]:
    data = _page(rng, ("text", "text"), values)
    (field_a, field_b), press, (first, second) = data["fields"], rng.choice(data["buttons"]), rng.sample(values, 2)
    ending = (button(press), done())
    return data, TaskPlan(
        f"Write {first} as {field_a['label']} and {second} as {field_b['label']}, then press {press}.",
        (typed(field_a["label"], first), typed(field_b["label"], second), *ending),
        _sent(press, **{field_a["name"]: first, field_b["name"]: second}),
        wrong=(typed(field_a["label"], second), typed(field_b["label"], first), *ending),
    )


_KINDS = {"press": _press, "type": _type, "choose": _choose, "type_two": _type_two}
