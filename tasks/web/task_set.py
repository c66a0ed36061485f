"""The task set `web/apps-v1`: tasks of several steps on four applications."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import cache

from agentgym.task import Task, TaskSet

from ..generator import TaskGenerator, TaskSlot
from . import worlds
from .calendar_tasks import CALENDAR
from .forum_tasks import FORUM
from .mail_tasks import MAIL
from .oracle import imperfect_oracle, oracle
from .plan import Drawn, Template
from .shop_tasks import SHOP

NAME, ENVIRONMENT = "web/apps-v1", "agentgym/web-v1"
SIZES = {"train": 1_200, "validation": 120, "unseen_tasks": 100, "unseen_worlds": 100, "unseen_templates": 100}
TEMPLATES = (*SHOP, *MAIL, *FORUM, *CALENDAR)
TRAINED_WORLDS, HELD_OUT_WORLDS = range(0, 40), range(100, 120)
_DATA = {
    "shop": worlds.shop_data, "mail": worlds.mail_data, "forum": worlds.forum_data, "calendar": worlds.calendar_data,
}  # fmt: skip
_SHARE = {"shop": 4, "mail": 3, "forum": 2, "calendar": 2}


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Build the task set; the seed chooses which tasks are in it.

    Held-out tasks carry the tag `unseen_tasks` (worlds and templates as in training), `unseen_worlds` (other goods,
    people and places) or `unseen_templates` (kinds of task of which none is trained on).
    """
    trained = [template for template in TEMPLATES if not template.held_out]
    strange = [template for template in TEMPLATES if template.held_out]
    draw = TaskGenerator(NAME, SIZES, seed).draw
    return TaskSet(
        NAME,
        {
            "held_out": [
                *draw("unseen_worlds", _task, trained, HELD_OUT_WORLDS),
                *draw("unseen_templates", _task, strange, TRAINED_WORLDS),
                *draw("unseen_tasks", _task, trained, TRAINED_WORLDS),
            ],
            "validation": draw("validation", _task, trained, TRAINED_WORLDS),
            "train": draw("train", _task, trained, TRAINED_WORLDS),
        },
        oracle=oracle,
        imperfect_oracle=imperfect_oracle,
    )


def _task(rng: random.Random, slot: TaskSlot, templates: Sequence[Template], seeds: Sequence[int]) -> Task:
    app = rng.choices(list(_SHARE), list(_SHARE.values()))[0]
    template = rng.choice([one for one in templates if one.app == app])
    world = rng.choice(seeds)
    drawn = template.draw(rng, _DATA[app](world), world)
    return Task(
        id=slot.id,
        environment=ENVIRONMENT,
        prompt=drawn.prompt,
        parameters={"site": app, "data": f"web/{app}", "seed": world},
        truth=truth_of(drawn),
        split=slot.split,
        tags=(app, template.name, *slot.tags),
        difficulty=template.difficulty,
    )


def truth_of(drawn: Drawn) -> dict[str, object]:
    """What judges a drawn task, and how its two players go about it."""
    truth: dict[str, object] = {
        "effects": json.dumps(drawn.effects, sort_keys=True),
        "plan": json.dumps(drawn.plan),
        "wrong": json.dumps(drawn.wrong),
    }
    return {**truth, "answer": drawn.answer} if drawn.answer else truth
