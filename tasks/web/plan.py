"""The result of a template: the prompt, the required changes, and the steps of the scripted players."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Step = tuple[str, ...]
"""`("click", 'link "Cart"')`, `("type", 'textbox "To"', text)`, `("select", 'combobox "Sort by"', option)`,
`("seek", 'link "X"', 'link "Next page"')`: click the second link until the first appears, then click the first;
`("answer", text)`. Elements are named by the beginning of their line on the page."""


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """One task of a template.

    Attributes:
        prompt: the text for the agent.
        steps: the oracle's steps, which end with the answer.
        effects: the exact changes at the end.
        answer: the required answer; '' if any answer is right.
        wrong: the steps of the imperfect oracle.
    """

    prompt: str
    steps: tuple[Step, ...]
    effects: Mapping[str, Any]
    answer: str = ""
    wrong: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class WebTemplate:
    """A kind of task on one application. `held_out`: it is never trained on."""

    name: str
    app: str
    draw: Callable[[random.Random, Mapping[str, Any], int], TaskPlan]
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
