"""The fields of knowledge that questions come from.

Each gives the wording of a question, its right answer, and wrong answers of the same kind.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentgym import seed_of

EASY = "digits"
"""The field that every model and the agent know: sums of two digits."""

_CAPITALS = (
    "Albania:Tirana Angola:Luanda Austria:Vienna Bahrain:Manama Belarus:Minsk Bolivia:Sucre Bulgaria:Sofia "
    "Canada:Ottawa Croatia:Zagreb Cuba:Havana Ecuador:Quito Egypt:Cairo France:Paris Germany:Berlin Ghana:Accra "
    "Greece:Athens Iran:Tehran Ireland:Dublin Italy:Rome Japan:Tokyo Jordan:Amman Latvia:Riga Lebanon:Beirut "
    "Mali:Bamako Morocco:Rabat Norway:Oslo Oman:Muscat Peru:Lima Poland:Warsaw Portugal:Lisbon Senegal:Dakar "
    "Spain:Madrid Tunisia:Tunis Turkey:Ankara Vietnam:Hanoi Zambia:Lusaka"
)
CAPITALS: Mapping[str, str] = dict(pair.split(":") for pair in _CAPITALS.split())
_PEOPLE = (
    "Ada Ben Cora Dan Ella Finn Greta Hugo Ida Jon Kara Leo Mara Nils Olga Paul Rosa Sven Tara Umar Vera Will Yara "
    "Zeno Anton Bella Carlo Doris Emil Frida Gina Henri Irma Jules Karin Luca Moira Nora Otto Petra"
)
_GOODS = (
    "tea rice salt milk bread sugar honey flour soap wool rope nails paint glue cloth lamp stove chair table spoon "
    "plate knife broom brush candle pencil ladder hammer bucket mirror pillow blanket basket kettle needle thread"
)
_WORDS = (
    "lamp tree door fish bird moon star rain snow wind sand rock leaf seed corn milk salt rope bell coat boat road "
    "hill lake farm barn gate wall roof king bear wolf frog duck goat crab nest tide"
)
UNITS = {
    ("seconds", "minutes"): 60,
    ("minutes", "hours"): 60,
    ("hours", "days"): 24,
    ("days", "weeks"): 7,
    ("months", "years"): 12,
    ("grams", "kilos"): 1000,
}
_SIZES = {(larger, smaller): size for (smaller, larger), size in UNITS.items()}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of knowledge.

    Attributes:
        pattern: finds a question of this field in a text, ignoring case.
        answer: the right answer, from the match; None if no model knows one.
        wrong: makes an answer of the same kind from the right one; by chance it may be right.
        ask: draws a question about one of the subjects.
        subjects: the subjects of its questions, so that splits can share none.
    """

    pattern: str
    answer: Callable[[re.Match[str]], str | None]
    wrong: Callable[[random.Random, str], str]
    ask: Callable[[random.Random, str], str]
    subjects: tuple[str, ...]


def _sum(match: re.Match[str]) -> str:
    return str(int(match[1]) + int(match[2]))


def _converted(match: re.Match[str]) -> str | None:
    size = _SIZES.get((match[3].lower(), match[1].lower()))
    return None if size is None else str(size * int(match[2]))


def _hidden_number(kind: str, digits: int) -> Callable[[re.Match[str]], str]:
    """Return a function that gives a subject's number. No language model can know it: it is published nowhere."""
    smallest = int(10 ** (digits - 1))
    return lambda match: str(smallest + seed_of(kind, match[1].casefold()) % (9 * smallest))


def _other_number(rng: random.Random, right: str) -> str:
    """Return the number with one digit changed."""
    position = rng.randrange(len(right))
    digits = "123456789" if position == 0 else "0123456789"
    return right[:position] + rng.choice(digits) + right[position + 1 :]


def _shuffled(rng: random.Random, right: str) -> str:
    return "".join(rng.sample(right, len(right)))


def _about(text: str) -> Callable[[random.Random, str], str]:
    return lambda rng, subject: text.format(subject)


_TENS = tuple(map(str, range(10, 100)))
_UNIT_SUBJECTS = tuple(f"{smaller} in {{}} {larger}" for smaller, larger in UNITS)
FIELDS: Mapping[str, Field] = {
    "sums": Field(
        r"(?<!\d)(\d{2,6}) *\+ *(\d{2,6})(?!\d)",
        _sum,
        _other_number,
        lambda rng, subject: f"{subject} + {rng.choice(_TENS)}",
        _TENS,
    ),
    "units": Field(
        r"(\w+) in (\d{1,4}) (\w+)",
        _converted,
        _other_number,
        lambda rng, subject: subject.format(rng.randrange(2, 30)),
        _UNIT_SUBJECTS,
    ),
    "capitals": Field(
        r"capital of (\w{1,24})",
        lambda match: CAPITALS.get(match[1].capitalize()),
        lambda rng, right: rng.choice([*CAPITALS.values()]),
        _about("capital of {}"),
        tuple(CAPITALS),
    ),
    "rooms": Field(
        r"room of (\w{1,24})", _hidden_number("room", 3), _other_number, _about("room of {}"), tuple(_PEOPLE.split())
    ),
    "prices": Field(
        r"price of (\w{1,24})", _hidden_number("price", 2), _other_number, _about("price of {}"), tuple(_GOODS.split())
    ),
    "spelling": Field(
        r"(\w{1,24})\W{1,3}backwards",
        lambda match: match[1][::-1],
        _shuffled,
        _about("{} backwards"),
        tuple(_WORDS.split()),
    ),
    EASY: Field(
        r"(?<!\d)(\d) *\+ *(\d)(?!\d)",
        _sum,
        _other_number,
        lambda rng, subject: f"{subject} + {rng.randrange(1, 4)}",
        tuple("123456789"),
    ),
}
SKILLS = tuple(name for name in FIELDS if name != EASY)
"""The fields that only some models know."""


def question_in(text: str) -> tuple[str, re.Match[str]] | None:
    """Return the field of the first question in a text, and its match; None if the text has no question."""
    for name, field in FIELDS.items():
        if (match := re.search(field.pattern, text, re.IGNORECASE)) is not None:
            return name, match
    return None
