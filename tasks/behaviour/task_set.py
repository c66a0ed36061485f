"""Generate logs of shoppers: two to four past sessions that reveal their habits, and one to predict."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache

from agentgym import Call, Message, Task, TaskSet, seed_of

from ..generator import TaskGenerator, TaskSlot
from .shop import CLICK, ELEMENTS, SORTS, ShopPage, ShopperAction, stock_of
from .shopper import (
    BRAND,
    CHOICES,
    CONDITIONS,
    NEW_CHOICES,
    NEW_CONDITIONS,
    NEW_WORDINGS,
    WORDINGS,
    Habits,
    Session,
    all_foretell,
    all_habits,
    consistent,
    draw_habits,
    session,
)
from .words import BRANDS, COLOURS, KINDS, NEW_BRANDS, NEW_COLOURS, NEW_KINDS

NAME, ENVIRONMENT = "behaviour/shopping-v1", "agentgym/behaviour-v1"
SIZES = {"train": 1800, "validation": 120, "unseen_products": 180, "unseen_habits": 150, "unseen_compositions": 150}
MIN_STEPS, MAX_STEPS = 3, 7
"""The smallest and the largest number of decisions in the session to predict."""
MIN_PAST, MAX_PAST = 2, 4
MISSES = 1 / 6
"""The probability that the imperfect oracle opens the first product instead."""
INSTRUCTION = (
    "You read the log of a shopper whose habits never change. Predict, page by page, what the same shopper does in the "
    f"present session. Elements: {ELEMENTS}. Buying, and terminate, end a session."
)


@cache
def task_set(seed: int = 0) -> TaskSet:
    """The log of a shopper, and a session of theirs to be predicted page by page.

    The seed chooses shoppers and products.

    Tasks carry the number of past sessions as a tag, such as `past_3`. Held-out tasks carry the tag `unseen_products`
    (kinds, brands and colours that no training task has), `unseen_habits` (a habit that no shopper of a training task
    has) or `unseen_compositions` (habits that no shopper of a training task has together). Difficulty is the number of
    decisions.
    """
    generator = TaskGenerator(NAME, SIZES, seed)
    return TaskSet(NAME, generator.splits(_task), oracle=oracle, imperfect_oracle=imperfect_oracle)


def _task(rng: random.Random, slot: TaskSlot) -> Task | None:
    is_new = slot.stratum == "unseen_products"
    brands = NEW_BRANDS if is_new else BRANDS
    kinds, colours = (NEW_KINDS, NEW_COLOURS) if is_new else (KINDS, COLOURS)
    habits = _habits(rng, slot.stratum, brands)
    if _is_new_composition(habits) is not (slot.stratum == "unseen_compositions"):
        return None

    def session_about(kind: str) -> Session:
        return session(habits, ShopPage(kind, rng.choice(colours), stock_of(rng, kind, brands, colours)))

    first, *others = rng.sample(kinds, MAX_PAST + 1)
    present = session_about(first)
    if not MIN_STEPS <= len(present) <= MAX_STEPS or not _goes_by_what_is_new(slot.stratum, habits, present[-1][0]):
        return None
    past: list[Session] = []
    possible = all_habits(brands)
    for kind in others:
        past.append(session_about(kind))
        possible = consistent(possible, past[-1])
        if len(past) >= MIN_PAST and all_foretell(possible, present):
            return _written(slot, habits, past, present)
    return None


def _habits(rng: random.Random, stratum: str, brands: Sequence[str]) -> Habits:
    if stratum != "unseen_habits":
        return draw_habits(rng, brands)
    new = rng.randrange(3)  # which habit is new
    return draw_habits(
        rng,
        brands,
        NEW_WORDINGS if new == 0 else WORDINGS,
        tuple(NEW_CHOICES if new == 1 else CHOICES),
        tuple(NEW_CONDITIONS if new == 2 else CONDITIONS),
    )


def _is_new_composition(habits: Habits) -> bool:
    """Return whether a shopper sorts before filtering, or opens a brand's best-rated product; no training shopper
    does.
    """
    return _orders_first(habits) or (habits.fit == BRAND and habits.choice == "best rated")


def _orders_first(habits: Habits) -> bool:
    return len(habits.refinements) == 2 and habits.refinements[0].action in SORTS


def _goes_by_what_is_new(stratum: str, habits: Habits, last: ShopPage) -> bool:
    """Return whether a session that ends on this page shows the new habits of its stratum."""
    if stratum == "unseen_compositions" and _orders_first(habits):
        return len(last.refined) == 2
    return stratum not in ("unseen_habits", "unseen_compositions") or last.opened is not None


def _written(slot: TaskSlot, habits: Habits, past: Sequence[Session], present: Session) -> Task:
    log = [f"{_heading(n, steps)}\n{_log_of(steps)}" for n, steps in enumerate(past, start=1)]
    return Task(
        id=slot.id,
        environment=ENVIRONMENT,
        prompt=INSTRUCTION,
        parameters={
            "past": "\n\n".join(log),
            "present": _heading(len(past) + 1, present),
            "steps": [{"page": str(page), "action": str(action)} for page, action in present],
        },
        truth={
            "actions": [str(action) for _, action in present],
            "reasons": [habits.reason(page) for page, _ in present],
        },
        split=slot.split,
        tags=(f"past_{len(past)}", *slot.tags),
        difficulty=float(len(present)),
    )


def _heading(number: int, steps: Session) -> str:
    first = steps[0][0]
    return f"Session {number}. Needs: {first.kind}, {first.colour}."


def _log_of(steps: Session) -> str:
    """Return the pages and actions of a session. Of a page that was only refined, the heading alone is shown."""
    lines: list[str] = []
    for page, action in steps:
        if page.query:
            lines.append(page.heading if action.refines else str(page))
        lines.append(f"> {action}")
    return "\n".join(lines)


def oracle(task: Task) -> list[Message]:
    """Predict every action, and give the habit as the reason."""
    return [_prediction(n, *step) for n, step in enumerate(_steps(task))]


def imperfect_oracle(task: Task) -> list[Message]:
    """Play as the oracle does, but at each step, with probability 1/6, open the first product, which is rarely
    right.
    """
    rng = random.Random(seed_of("imperfect", task.id))
    guess = ("I guess.", ShopperAction(CLICK, "product", "the first"))
    return [_prediction(n, *(step if rng.random() >= MISSES else guess)) for n, step in enumerate(_steps(task))]


def _steps(task: Task) -> list[tuple[str, ShopperAction]]:
    return list(zip(task.truth["reasons"], map(ShopperAction.read, task.truth["actions"]), strict=True))


def _prediction(number: int, reason: str, action: ShopperAction) -> Message:
    element = {"target": action.target, "value": action.value} if action.target else {}
    arguments = {"rationale": reason, "type": action.type, **element}
    return Message("assistant", "", (Call("act", arguments, f"call_{number}"),))
