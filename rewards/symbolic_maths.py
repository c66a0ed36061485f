"""`symbolic_maths`: whether the agent's answer is mathematically equal to the gold answer, in any notation.

The answer is the content of the last \\boxed{...}, the text after the last `####`, or the whole text. It is never
executed. The parser is our own, because the usual ones (sympy, latex2sympy) evaluate their input.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from agentgym import Reward, Task, Trajectory
from agentgym.reward import SUCCESS, Components, fold_text

from .final_answer import final_answer, gold_answers
from .maths_equality import same
from .maths_notation import read
from .maths_tokens import NoMaths, latex_of, plain_text

MAX_CHARS, MAX_WITH_UNIT = 100_000, 600
_AROUND = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"\\(?:text|textbf|textit|mathrm|mathbf|mbox)\s*\{([^{}]*)\}",
        r"\$([^$]*)\$",
        r"\$\$([^$]*)\$\$",
        r"\\\((.*)\\\)",
        r"\\\[(.*)\\\]",
        r"\*\*([^*]+)\*\*",
        r"[\"\u201c\u201e]([^\"\u201c-\u201e]*)[\"\u201c\u201d]",
        r"['\u2018]([^'\u2018\u2019]*)['\u2019]",
        r"`([^`]*)`",
        r"(?i:(?:the )?(?:final )?answer(?: is|:):?\s+)(.+?)\.?",
    )
)
MAX_LAYERS = 4
_COMMAND = re.compile(r"\\(?!text|mathrm|mathbf|mbox)[a-zA-Z]")
_WORD = re.compile(r"\\text\s*\{([^{}]*)\}|\\[a-z]+|[\s${}().,\\]+")


_SPELLINGS = (
    "cm centimeter centimetre",
    "mm millimeter millimetre",
    "km kilometer kilometre",
    "kg kilogram",
    "mg milligram",
    "ml milliliter millilitre",
    "lb pound",
    "oz ounce",
    "ft foot feet",
    "inch inche",
    "meter metre",
    "gram",
    "liter litre",
    "gallon",
    "yard",
    "mile",
    "mph",
    "second sec",
    "minute min",
    "hour hr",
    "day",
    "week",
    "month",
    "year",
    "dollar",
    "cent",
    "euro",
    "percent",
    "degree deg",
    "radian rad",
    "unit",
)
_UNITS = {word: words.split()[0] for words in _SPELLINGS for word in words.split()}
_RATES = {"mph": "mile hour", "kph": "km hour", "kmh": "km hour"}
_LETTERS = {"m": "meter", "g": "gram", "l": "liter", "s": "second", "h": "hour"}
"""Units of one letter. A letter is a unit only if it is marked as text, or follows another unit."""
_WORDS = "|".join(sorted((*_UNITS, *_RATES), key=len, reverse=True))
_UNIT = re.compile(
    r"(?<=[\d})])(?:\s|~|\\[,;: ])*"
    r"(?:\\(?:text|mathrm|mbox|textrm)\s*\{(?P<wrapped>[^{}\d]{1,30})\}"
    r"|(?:\^\s*\{?\s*\\circ\s*\}?|\u00b0|\\degree)\s*(?:\\(?:text|mathrm)\s*\{\s*)?(?P<scale>[CF])\}?"
    rf"|(?:(?:square|cubic|sq\.?)\s+)?(?P<plain>(?:{_WORDS}|m(?=\s*/))s?(?:\s*(?:/|\bper\b)\s*(?:{_WORDS}|[hs]\b)s?)?))"
    r"(?:\s*\^\s*(?:[23]|\{[23]\}))?\s*\.?\Z",
    re.IGNORECASE,
)
"""Matches a unit after a number; most gold answers omit it.

A single letter may be a symbol, so it is not a unit here.
"""


class SymbolicMaths(Reward):
    """Outcome component `success`: 1.0 if the final answer equals `truth["answer"]` (or one of a list), else 0.0.

    It reads LaTeX and plain notation: numbers, expressions, equations, tuples, sets, intervals and matrices. Anything
    else (a name, a multiple-choice letter) is compared as text without case, dollars and spaces. A number with a base,
    as in 52_8, equals only the same digits in the same base, because the question asked for the base.

    Args:
        argument: the final tool's argument that holds the answer.
        tolerance: relative difference up to which two numbers are equal, unless both are whole.
    """

    def __init__(self, argument: str = "text", tolerance: float = 1e-9) -> None:
        self.argument, self.tolerance = argument, tolerance

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError if the task has no gold answer; MissingExtraError without mpmath.
        """
        gold = gold_answers(episode, "symbolic_maths")
        answer = final_answer(episode, self.argument)
        return {SUCCESS: float(answer is not None and equivalent(answer, gold, tolerance=self.tolerance))}

    def task_fault(self, task: Task) -> str:
        """Return what is wrong with a gold answer that does not equal itself, so that no answer could succeed; empty if
        nothing is. Raises: MissingExtraError.
        """
        golds = gold_answers(Trajectory("gold", task), "symbolic_maths")
        unequal = [gold for gold in golds if not equivalent(gold, gold, tolerance=self.tolerance)]
        return f"its gold answer {unequal[0][:200]!r} does not equal itself, so nothing can" if unequal else ""


def equivalent(answer: str, gold: str | Iterable[str], *, tolerance: float = 1e-9) -> bool:
    """Return whether an answer equals the gold answer, or one of several."""
    gold_answers, answer = [gold] if isinstance(gold, str) else gold, extracted(answer)
    return any(_same(answer, extracted(text), tolerance) for text in gold_answers)


def extracted(text: str) -> str:
    """Return the answer within a text: in the last box, after the last ####, or the whole text."""
    text = text[-MAX_CHARS:]
    boxed = _last_box(text)
    if boxed is not None:
        return boxed
    return text.rpartition("####")[2].strip()


def _last_box(text: str) -> str | None:
    start = max(text.rfind("\\boxed{"), text.rfind("\\fbox{"))
    if start < 0:
        return None
    begin = text.index("{", start) + 1
    depth = 1
    for position in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        if depth == 0:
            return text[begin:position].strip()
    return None


def _same(answer: str, gold: str, tolerance: float) -> bool:
    (answer, unit), (gold, gold_unit) = (_without_unit(latex_of(unwrapped(text))) for text in (answer, gold))
    if unit and gold_unit and unit != gold_unit:
        return False
    if not answer or not gold:
        return False
    words = [fold_text(_WORD.sub(lambda m: f" {m[1] or ''} ", text)) for text in (answer, gold)]
    if words[1].isalpha() and len(words[1]) != 1 and words[1] not in ("pi", "inf", "infty", "infinity"):
        return words[0] == words[1]  # a word, not a product of symbols
    try:
        trees = read(answer), read(gold)
    except NoMaths:
        texts = plain_text(answer), plain_text(gold)
        is_maths = any(char.isdigit() for char in gold) or _COMMAND.search(gold)
        return bool(texts[0]) and (texts[0] == texts[1] or (bool(words[0]) and not is_maths and words[0] == words[1]))
    return same(*trees, tolerance=tolerance)


def _without_unit(text: str) -> tuple[str, str]:
    """Return a number without its unit, and the normalised unit; for other text, the text and an empty unit."""
    match = _UNIT.search(text) if len(text) <= MAX_WITH_UNIT else None
    if match is None:
        return text, ""
    words = re.split(r"[\s/]+", (match["plain"] or match["wrapped"] or match["scale"]).casefold())
    units = [_unit(word.strip(".")) for word in words if word not in ("", "per", "square", "cubic", "sq", "sq.")]
    return text[: match.start()], " ".join(units)


def _unit(word: str) -> str:
    known = _UNITS | _RATES | _LETTERS
    singular = word.removesuffix("s")
    return known.get(word) or known.get(singular) or singular or word


def unwrapped(text: str) -> str:
    r"""Return the text without an answer's wrapping: dollars, LaTeX brackets, \text, bold type, "The answer is"."""
    for _ in range(MAX_LAYERS):
        text = text.strip()
        text = next((match[1] for pattern in _AROUND if (match := pattern.fullmatch(text))), text)
    return text.strip()
