"""The task sets `web/apps-v1` and, for the environment `web-v2`, `web/apps-v2`: four applications, several steps."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from functools import cache

from agentgym import Task, TaskSet

from ..generator import TaskGenerator, TaskSlot
from . import app_data
from .calendar_tasks import CALENDAR
from .forum_tasks import FORUM
from .mail_tasks import MAIL
from .oracle import imperfect_oracle, oracle
from .plan import TaskPlan, WebTemplate
from .shop_tasks import SHOP

SIZES = {"train": 1_200, "validation": 120, "unseen_tasks": 100, "unseen_worlds": 100, "unseen_templates": 100}
TEMPLATES = (*SHOP, *MAIL, *FORUM, *CALENDAR)
TRAINED_SEEDS, HELD_OUT_SEEDS = range(0, 40), range(100, 120)
_DATA = {
    "shop": app_data.shop_data,
    "mail": app_data.mail_data,
    "forum": app_data.forum_data,
    "calendar": app_data.calendar_data,
}
_SHARE = {"shop": 4, "mail": 3, "forum": 2, "calendar": 2}


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Tasks in a shop, a mailbox, a forum and a calendar.

    The seed chooses which tasks are in it.

    Held-out tasks carry the tag `unseen_tasks` (new tasks with the data and templates of the training tasks),
    `unseen_worlds` (goods, people and places that no training task has) or `unseen_templates` (kinds of task that no
    training task has).
    """
    return _task_set("web/apps-v1", "agentgym/web-v1", seed)


@cache
def task_set_v2(seed: int = 0) -> TaskSet:
    """The same kinds of tasks as in `web/apps-v1`, for the tools of `agentgym/web-v2`."""
    return _task_set("web/apps-v2", "agentgym/web-v2", seed)


def _task_set(name: str, environment: str, seed: int) -> TaskSet:
    trained = [template for template in TEMPLATES if not template.held_out]
    unseen = [template for template in TEMPLATES if template.held_out]
    draw = TaskGenerator(name, SIZES, seed).draw
    return TaskSet(
        name,
        {
            "held_out": [
                *draw("unseen_worlds", _task, environment, trained, HELD_OUT_SEEDS),
                *draw("unseen_templates", _task, environment, unseen, TRAINED_SEEDS),
                *draw("unseen_tasks", _task, environment, trained, TRAINED_SEEDS),
            ],
            "validation": draw("validation", _task, environment, trained, TRAINED_SEEDS),
            "train": draw("train", _task, environment, trained, TRAINED_SEEDS),
        },
        oracle=oracle,
        imperfect_oracle=imperfect_oracle,
    )


def _task(
    rng: random.Random, slot: TaskSlot, environment: str, templates: Sequence[WebTemplate], seeds: Sequence[int]
) -> Task:
    app = rng.choices(list(_SHARE), list(_SHARE.values()))[0]
    template = rng.choice([t for t in templates if t.app == app])
    seed = rng.choice(seeds)
    plan = template.draw(rng, _DATA[app](seed), seed)
    return Task(
        id=slot.id,
        environment=environment,
        prompt=plan.prompt,
        parameters={"site": app, "data": f"web/{app}", "seed": seed},
        truth=truth_of(plan),
        split=slot.split,
        tags=(app, template.name, *slot.tags),
        difficulty=template.difficulty,
    )


def truth_of(plan: TaskPlan) -> dict[str, object]:
    """Return the truth of a task: the required changes, the answer, and the steps of the two scripted players."""
    truth: dict[str, object] = {
        "effects": json.dumps(plan.effects, sort_keys=True),
        "plan": json.dumps(plan.steps),
        "wrong": json.dumps(plan.wrong),
    }
    return {**truth, "answer": plan.answer} if plan.answer else truth
