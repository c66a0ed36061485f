"""The task set `web/long-form-v1`: forms of 2 to 32 steps, with one field on each page; every field counts."""

# ruff: noqa: SIM905 - `"a b c".split()` is easier to read than quoted words

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Sequence
from functools import cache, partial
from itertools import combinations
from typing import Any

from agentgym import Call, Message, Task, TaskSet, seed_of

from ..generator import TaskGenerator, TaskSlot
from .oracle import Script

NAME, ENVIRONMENT = "web/long-form-v1", "agentgym/web-wizard-v1"
TRAINED, RESERVED = (2, 4, 8, 16, 32), (3, 6, 12, 24)
PER_HORIZON = {"train": 400, "validation": 40, "unseen_instances": 40, "unseen_horizons": 40}
OPTIONS = 3
KINDS = ("text", "choice", "radio")
VALUES = {
    "City": "Oslo Lima Rome Bern Cork Nice".split(),
    "Name": "Ada Tom Kim Leo Max Eva".split(),
    "Day": "Mon Tue Wed Thu Fri Sat".split(),
}


def is_reserved(label: str, options: Iterable[str]) -> bool:
    """Return whether a field's label and options are a combination reserved for `unseen_instances`; one in five is."""
    return sum(map(VALUES[label].index, options)) % 5 == 0


_FIELDS = [(label, options) for label, values in VALUES.items() for options in combinations(values, OPTIONS)]
_KNOWN = [field for field in _FIELDS if not is_reserved(*field)]
_RESERVED = [field for field in _FIELDS if is_reserved(*field)]


@cache
def long_form_task_set(seed: int = 0) -> TaskSet:
    """Forms of 2 to 32 steps to be filled in, for experiments on credit over long horizons.

    See CARD.md for the number of tasks of every horizon.
    """
    horizons = {stratum: RESERVED if stratum == "unseen_horizons" else TRAINED for stratum in PER_HORIZON}
    sizes = {stratum: len(horizons[stratum]) * count for stratum, count in PER_HORIZON.items()}
    generator = TaskGenerator(NAME, sizes, seed)
    splits = generator.splits(_task, {stratum: (horizons[stratum],) for stratum in sizes})
    return TaskSet(NAME, splits, oracle=partial(_player, mistakes=0.0), imperfect_oracle=partial(_player, mistakes=0.5))


def _task(rng: random.Random, slot: TaskSlot, horizons: Sequence[int]) -> Task:
    horizon = horizons[slot.index % len(horizons)]
    steps = [_step(rng, _RESERVED if slot.stratum == "unseen_instances" else _KNOWN) for _ in range(horizon)]
    return Task(
        id=slot.id,
        environment=ENVIRONMENT,
        prompt="Enter each value.",
        parameters={"site": "wizard", "viewport": [400, 300], "horizon": horizon, "data": {"steps": steps}},
        truth={"effects": json.dumps({str(number): step["right"] for number, step in enumerate(steps, 1)})},
        split=slot.split,
        tags=(f"horizon_{horizon}", *slot.tags),
        difficulty=float(horizon),
    )


def _step(rng: random.Random, fields: Sequence[tuple[str, Sequence[str]]]) -> dict[str, Any]:
    label, options = rng.choice(fields)
    order = rng.sample(options, OPTIONS)
    return {"label": label, "kind": rng.choice(KINDS), "right": rng.choice(order), "options": order}


def _player(task: Task, mistakes: float) -> Script:
    """Return a player that enters the requested value or, at each step with probability `mistakes`, another value."""

    def script(messages: Sequence[Message]) -> Message:
        turn = sum(message.role == "assistant" for message in messages)
        rng = random.Random(seed_of("player", task.id, turn))
        request, _, options = messages[-1].text.rpartition("\n")[2].partition(": ")
        right = request.rpartition(" ")[2]
        is_mistaken = rng.random() < mistakes
        value = rng.choice([option for option in options.split() if option != right]) if is_mistaken else right
        return Message("assistant", "", (Call("enter", {"value": value}),))

    return script
