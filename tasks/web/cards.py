"""The task set `web/cards-v1`: open the card of a name and answer with its text, for policies that never saw a page.

Names and values are pairs of words. Every fifth pair is held out, so that held-out names consist of words that training
tasks have.
"""

# ruff: noqa: SIM905 - `"a b c".split()` is easier to read than quoted words

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from functools import cache

from agentgym import Call, Message, Task, TaskSet, seed_of

from ..generator import TaskGenerator, TaskSlot
from .oracle import Script, say
from .words import word_pairs

NAME, ENVIRONMENT = "web/cards-v1", "agentgym/web-form-v1"
SIZES = {"train": 6_000, "validation": 100, "unseen_values": 200, "unseen_pages": 100}
CARDS = 3
_FIRST = tuple(
    """
    Ada Dora Emil Greta Hugo Ines Karl Lena Leon Mira Nora Oscar Otto Pablo Rosa Selma Simon Tom Vera Viktor
    """.split()
)
_LAST = tuple(
    """
    Arden Berg Blanc Dietz Falk Holt Kessler Lang Lund Moreau Moss Novak Oaks Quinn Reyes Solis Tamm Varga Voss
    Weiss
    """.split()
)
_SHADE = tuple(
    """
    bright clear cold dark deep dull dusty faded fresh glossy hard light matt pale plain rich smoky soft strong warm
    """.split()
)
_COLOUR = tuple(
    """
    amber beige black blue brown cream gold green grey jade olive orange pink purple red rust silver violet white
    yellow
    """.split()
)
_PROMPT = 'Open "{}" and tell the colour.'
_LINK = re.compile(r'^ *\[\d+\] link "(.*)"$', re.MULTILINE)
_TEXT = re.compile(r'^ *\[\d+\] text "(.*)"$', re.MULTILINE)


@cache
def cards_task_set(seed: int = 0) -> TaskSet:
    """Cards with names, of which one is to be opened and its text told, for policies that never saw a page.

    The seed chooses which tasks are in it.

    Held-out tasks carry the tag `unseen_pages` (names and values of the training tasks, on pages that no training task
    has) or `unseen_values` (names and values that no training task has).
    """
    draw = TaskGenerator(NAME, SIZES, seed).draw
    return TaskSet(
        NAME,
        {
            "held_out": [*draw("unseen_values", _task, new=True), *draw("unseen_pages", _task, new=False)],
            "validation": draw("validation", _task, new=False),
            "train": draw("train", _task, new=False),
        },
        oracle=cards_oracle,
        imperfect_oracle=imperfect_cards_oracle,
    )


def _task(rng: random.Random, slot: TaskSlot, new: bool) -> Task:
    names = rng.sample(word_pairs(_FIRST, _LAST, held_out=new), CARDS)
    values = rng.sample(word_pairs(_SHADE, _COLOUR, held_out=new), CARDS)
    position = rng.randrange(CARDS)
    return Task(
        id=slot.id,
        environment=ENVIRONMENT,
        prompt=_PROMPT.format(names[position]),
        parameters={
            "site": "cards",
            "viewport": [400, 300],
            "data": {"cards": [list(card) for card in zip(names, values, strict=True)]},
        },
        truth={"effects": {}, "answer": values[position]},
        split=slot.split,
        tags=(f"card_{position + 1}", *slot.tags),
    )


def cards_oracle(task: Task) -> Script:
    """Open the named card and answer with its text, from the prompt and the page, without the truth."""
    return _player(lambda target, names: target)


def imperfect_cards_oracle(task: Task) -> Script:
    """Open another card and answer with its text.

    The names on the page determine which card is opened. Every position is equally likely, so a policy that imitates
    this player does not learn a position.
    """

    def another(target: str, names: list[str]) -> str:
        others = [name for name in names if name != target]
        return others[seed_of(target, *names) % len(others)]

    return _player(another)


def _player(choose: Callable[[str, list[str]], str]) -> Script:
    def script(messages: Sequence[Message]) -> Message:
        page = messages[-1].text
        if messages[-1].role == "user":
            target = page.split('"')[1]
            return say(Call("click", {"element": choose(target, _LINK.findall(page))}))
        match = _TEXT.search(page)
        return say(Call("answer", {"text": match[1] if match else "unknown"}))

    return script
