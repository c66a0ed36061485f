"""What a template makes: a task as asked, what must come of it, and the steps that bring it about."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Step = tuple[str, ...]
"""`("click", 'link "Cart"')`, `("type", 'textbox "To"', text)`, `("select", 'combobox "Sort by"', option)`,
`("seek", 'link "X"', 'link "Next page"')`: click the first, turning pages by the second until it is there;
`("answer", text)`. Elements are named by how their line begins."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """One drawn task. `effects`: exactly what must have changed. `answer`: what must be answered, '' for anything.

    `plan` ends with the answer; `wrong` are the steps of a player who uses the pages well, to the wrong end.
    """

    prompt: str
    plan: tuple[Step, ...]
    effects: Mapping[str, Any]
    answer: str = ""
    wrong: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Template:
    """A kind of task on one application. `held_out`: no task of it is trained on."""

    name: str
    app: str
    draw: Callable[[random.Random, Mapping[str, Any], int], Drawn]
    held_out: bool = False
    difficulty: float = 1.0


def click(label: str) -> Step:
    return ("click", label)


def link(words: str) -> Step:
    return ("click", f'link "{words}"')


def button(words: str) -> Step:
    return ("click", f'button "{words}"')


def typed(field: str, text: str) -> Step:
    return ("type", f'textbox "{field}"', text)


def chosen(field: str, option: str) -> Step:
    return ("select", f'combobox "{field}"', option)


def done(answer: str = "") -> Step:
    return ("answer", answer)
