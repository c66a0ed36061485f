"""Small functions, each with possible wrong versions of its lines."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Draw = Callable[[random.Random], Any]


def _numbers(rng: random.Random) -> list[int]:
    return [rng.randint(-9, 20) for _ in range(rng.randint(1, 7))]


def _words(rng: random.Random) -> list[str]:
    return ["".join(rng.choice("abeiklmnorstu") for _ in range(rng.randint(1, 8))) for _ in range(rng.randint(1, 5))]


def _text(rng: random.Random) -> str:
    return " ".join(_words(rng))


def _number(rng: random.Random) -> int:
    return rng.randint(0, 40)


@dataclass(frozen=True)
class BugTemplate:
    """A function whose texts have the placeholder `{k}` for a number.

    Attributes:
        says: what the function does, as the end of a sentence.
        lines: the lines of the function's body. bugs: the possible bugs, each as the index of a line and a wrong
            version of that line.
        draw: draws an argument. held_out: whether its tasks are in the stratum `unseen_templates`.
    """

    says: str
    lines: tuple[str, ...]
    bugs: tuple[tuple[int, str], ...]
    draw: Draw
    held_out: bool = False


TEMPLATES = (
    BugTemplate(
        "adds up the numbers above {k}",
        ("total = 0", "for item in items:", "    if item > {k}:", "        total += item", "return total"),
        (
            (0, "total = 1"),
            (2, "    if item < {k}:"),
            (2, "    if item >= {k}:"),
            (3, "        total -= item"),
            (4, "return item"),
        ),
        _numbers,
    ),
    BugTemplate(
        "counts the numbers up to {k}",
        ("count = 0", "for item in items:", "    if item <= {k}:", "        count += 1", "return count"),
        (
            (0, "count = 1"),
            (2, "    if item < {k}:"),
            (2, "    if item > {k}:"),
            (3, "        count += 2"),
            (3, "        count -= 1"),
        ),
        _numbers,
    ),
    BugTemplate(
        "is the largest number, and {k} if none is larger",
        ("best = {k}", "for item in items:", "    if item > best:", "        best = item", "return best"),
        ((2, "    if item < best:"), (3, "        best = best"), (4, "return item"), (0, "best = {k} + 1")),
        _numbers,
    ),
    BugTemplate(
        "multiplies each number by {k}",
        ("found = []", "for item in items:", "    found.append(item * {k})", "return found"),
        (
            (2, "    found.append(item + {k})"),
            (2, "    found.append(item - {k})"),
            (3, "return items"),
            (2, "    found.append({k})"),
        ),
        _numbers,
    ),
    BugTemplate(
        "keeps the numbers that {k} divides",
        ("found = []", "for item in items:", "    if item % {k} == 0:", "        found.append(item)", "return found"),
        (
            (2, "    if item % {k} == 1:"),
            (2, "    if item % {k} != 0:"),
            (2, "    if item // {k} == 0:"),
            (3, "        found.append({k})"),
        ),
        _numbers,
    ),
    BugTemplate(
        "joins the words longer than {k} letters",
        (
            "kept = []",
            "for word in items:",
            "    if len(word) > {k}:",
            "        kept.append(word)",
            'return "-".join(kept)',
        ),
        (
            (2, "    if len(word) < {k}:"),
            (2, "    if len(word) >= {k}:"),
            (4, 'return "-".join(items)'),
            (4, 'return "".join(kept)'),
        ),
        _words,
    ),
    BugTemplate(
        "gives the first {k} letters of each word",
        ("found = []", "for word in items:", "    found.append(word[:{k}])", "return found"),
        ((2, "    found.append(word[{k}:])"), (2, "    found.append(word[1:{k}])"), (3, "return items")),
        _words,
    ),
    BugTemplate(
        "counts how often the commonest letter comes, at least {k}",
        (
            "best = {k}",
            "for letter in items:",
            "    count = items.count(letter)",
            "    best = max(best, count)",
            "return best",
        ),
        ((3, "    best = min(best, count)"), (2, "    count = items.index(letter)"), (4, "return count")),
        _text,
    ),
    BugTemplate(
        "turns a text round after its first {k} letters",
        ("head = items[:{k}]", "tail = items[{k}:]", "return head + tail[::-1]"),
        (
            (0, "head = items[{k}:]"),
            (1, "tail = items[:{k}]"),
            (2, "return head + tail"),
            (2, "return tail[::-1] + head"),
        ),
        _text,
    ),
    BugTemplate(
        "sums the numbers from {k} up to it",
        ("total = 0", "for number in range({k}, items + 1):", "    total += number", "return total"),
        (
            (1, "for number in range({k}, items):"),
            (1, "for number in range({k} + 1, items + 1):"),
            (2, "    total = number"),
            (2, "    total -= number"),
        ),
        _number,
    ),
    BugTemplate(
        "counts down from it to 0 in steps of {k}",
        ("found = []", "while items > 0:", "    found.append(items)", "    items -= {k}", "return found"),
        ((1, "while items > {k}:"), (1, "while items >= 0:"), (2, "    found.append({k})"), (4, "return items")),
        _number,
    ),
    BugTemplate(
        "gives the differences of neighbours, times {k}",
        (
            "found = []",
            "for place in range(1, len(items)):",
            "    gap = items[place] - items[place - 1]",
            "    found.append(gap * {k})",
            "return found",
        ),
        (
            (1, "for place in range(2, len(items)):"),
            (2, "    gap = items[place] + items[place - 1]"),
            (3, "    found.append(gap + {k})"),
            (2, "    gap = items[place - 1] - items[place]"),
        ),
        _numbers,
        held_out=True,
    ),
    BugTemplate(
        "is true where no number is above {k}",
        ("for item in items:", "    if item > {k}:", "        return False", "return True"),
        ((1, "    if item >= {k}:"), (1, "    if item < {k}:"), (2, "        return True"), (3, "return False")),
        _numbers,
        held_out=True,
    ),
    BugTemplate(
        "moves the first {k} items to the end",
        ("head = items[:{k}]", "tail = items[{k}:]", "return tail + head"),
        ((0, "head = items[{k}:]"), (2, "return head + tail"), (1, "tail = items[:{k}]")),
        _words,
        held_out=True,
    ),
)
