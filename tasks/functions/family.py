"""A family of function-writing tasks: a description, a reference solution and inputs, which share parameters."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import Template
from typing import Any

Parameters = Mapping[str, object]
LETTERS = "aabcdeefghiiklmnoopqrstuuvwxyz"


@dataclass(frozen=True, slots=True)
class Family:
    """Tasks that differ only in their parameters.

    Attributes:
        name: the function's name.
        band: difficulty, 1 (one operation) to 6 (a small algorithm).
        takes: the kind of the function's argument; a key of ARGUMENTS.
        values: the allowed values of each parameter. All combinations form the family's space.
        words: description of the function, with `$name` in place of a parameter.
        body: the body of the reference solution, with the same placeholders.
        held_out: all tasks of the family are in the stratum `unseen_families`.
    """

    name: str
    band: int
    takes: str
    values: Mapping[str, Sequence[object]]
    words: str
    body: str
    held_out: bool = False

    def space(self) -> list[Parameters]:
        """Return the combinations of parameter values, or 80 of them if there are more, in a fixed shuffled order."""
        combinations: list[Parameters] = [
            dict(zip(self.values, chosen, strict=True)) for chosen in itertools.product(*self.values.values())
        ]
        random.Random(self.name).shuffle(combinations)
        return combinations[:80]

    def source(self, parameters: Parameters) -> str:
        """Return the reference solution as Python code."""
        body = Template(self.body).substitute({name: repr(value) for name, value in parameters.items()})
        lines = "\n".join(f"    {line}" if line else "" for line in body.strip("\n").split("\n"))
        return f"def {self.name}({ARGUMENTS[self.takes].name}):\n{lines}\n"

    def sentence(self, parameters: Parameters) -> str:
        return Template(self.words).substitute({name: repr(value) for name, value in parameters.items()})


@dataclass(frozen=True, slots=True)
class Argument:
    """A kind of argument: its name, its description, a function that draws a value, and its smallest value (`edge`)."""

    name: str
    words: str
    draw: Callable[[random.Random], Any]
    edge: Any


def _word(rng: random.Random) -> str:
    return "".join(rng.choices(LETTERS, k=rng.randint(1, 7)))


def _words(rng: random.Random) -> list[str]:
    pool = [_word(rng) for _ in range(3)]  # few, so that words repeat
    return [rng.choice(pool) if rng.random() < 0.6 else _word(rng) for _ in range(rng.randint(1, 8))]


def _ints(rng: random.Random) -> list[int]:
    return [rng.randint(-20, 40) for _ in range(rng.randint(1, 10))]


def _rows(rng: random.Random) -> list[list[int]]:
    width = rng.randint(1, 4)
    return [[rng.randint(-9, 20) for _ in range(width)] for _ in range(rng.randint(1, 4))]


ARGUMENTS: Mapping[str, Argument] = {
    "numbers": Argument("numbers", "a list of whole numbers", _ints, []),
    "naturals": Argument(
        "numbers",
        "a list of whole numbers, 0 or more",
        lambda rng: [rng.randint(0, 30) for _ in range(rng.randint(1, 9))],
        [],
    ),
    "number": Argument(
        "n", "a whole number, 0 or more", lambda rng: rng.choice((rng.randint(1, 30), rng.randint(1, 999))), 0
    ),
    "text": Argument("text", "a string of words", lambda rng: " ".join(_words(rng)), ""),
    "words": Argument("words", "a list of words", _words, []),
    "scores": Argument(
        "scores",
        "a dict from names to whole numbers",
        lambda rng: {_word(rng): rng.randint(0, 40) for _ in range(rng.randint(1, 6))},
        {},
    ),
    "pairs": Argument(
        "pairs",
        "a list of (name, number) tuples",
        lambda rng: [(rng.choice("abcde"), rng.randint(0, 30)) for _ in range(rng.randint(1, 8))],
        [],
    ),
    "rows": Argument("rows", "a list of rows, each a list of as many whole numbers", _rows, []),
}
