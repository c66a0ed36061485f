"""What the programs do: steps on each number of a list, then an ending that combines the numbers.

Every step is written as an expression that is the same in C, C++, JavaScript and bash; if Python's differs, it is given
too. No number is negative, so remainders and divisions are the same in all languages. `IDIV(a, b)` is an integer
division.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """One operation on `x`, the `i`-th number counted from 1, with a parameter `K`.

    Attributes:
        words: the step in English. k: the possible values of K; empty without a K.
        code: a C-like expression. python: the same in Python, where it differs.
        keeps: whether the expression is a condition that a number must meet; other numbers are skipped.
    """

    words: str
    code: str
    k: Sequence[int]
    python: str = ""
    keeps: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """What the program prints: `acc`, which begins at `start` and which each number that was not skipped updates.

    Attributes:
        each: print `acc` after every number instead of at the end. Other attributes are as in ProgramStep.
    """

    words: str
    start: int
    code: str
    python: str = ""
    k: Sequence[int] = ()
    each: bool = False


STEPS: Mapping[str, ProgramStep] = {
    "add": ProgramStep("add K to it", "x + K", range(1, 60)),
    "times": ProgramStep("multiply it by K", "x * K", range(2, 13)),
    "modulo": ProgramStep("replace it by its remainder when divided by K", "x % K", range(5, 60)),
    "halve": ProgramStep("replace it by x divided by K, rounded down", "IDIV(x,K)", range(2, 9)),
    "square": ProgramStep("replace it by the remainder of its square divided by K", "x * x % K", range(11, 90)),
    "index": ProgramStep("add to it its position in the input, counted from 1, times K", "x + i * K", range(1, 15)),
    "far": ProgramStep("replace it by its distance from K", "(x > K ? x - K : K - x)", range(20, 300), "abs(x - K)"),
    "cap": ProgramStep("lower it to K if it is larger", "(x > K ? K : x)", range(50, 500), "min(x, K)"),
    "raise": ProgramStep("raise it to K if it is smaller", "(x < K ? K : x)", range(50, 500), "max(x, K)"),
    "multiples": ProgramStep("skip it unless it is divisible by K", "x % K == 0", range(2, 5), keeps=True),
    "no_multiples": ProgramStep("skip it if it is divisible by K", "x % K != 0", range(2, 9), keeps=True),
    "above": ProgramStep("skip it unless it is above K", "x > K", range(5, 300), keeps=True),
    "below": ProgramStep("skip it unless it is below K", "x < K", range(200, 900), keeps=True),
    "every": ProgramStep(
        "skip it unless its position in the input, counted from 1, is divisible by K",
        "i % K == 0",
        range(2, 4),
        keeps=True,
    ),
}

ENDINGS: Mapping[str, Ending] = {
    "sum": Ending("Print the sum of what is left.", 0, "acc + x"),
    "count": Ending("Print how many are left.", 0, "acc + 1"),
    "most": Ending("Print the largest of what is left, or -1 if nothing is.", -1, "(x > acc ? x : acc)", "max(acc, x)"),
    "least": Ending(
        "Print the smallest of what is left, or -1 if nothing is.",
        -1,
        "(acc < 0 || x < acc ? x : acc)",
        "(x if acc < 0 or x < acc else acc)",
    ),
    "last": Ending("Print the last of what is left, or -1 if nothing is.", -1, "x"),
    "squares": Ending("Print the sum of the squares of what is left.", 0, "acc + x * x"),
    "running": Ending(
        "After each number that is left, print the sum of those so far on a line of its own.", 0, "acc + x", each=True
    ),
    "each": Ending("Print each number that is left, on a line of its own.", 0, "x", each=True),
    "fold": Ending(
        "Begin with 1; for each number that is left, multiply by K, add the number, and keep the remainder "
        "of a division by 9973. Print what you have at the end.",
        1,
        "(acc * K + x) % 9973",
        k=range(2, 40),
    ),
}

UNSEEN = frozenset({"far", "raise", "every", "fold", "last"})
"""Steps and endings that no training task has. A held-out task of the stratum `unseen_steps` has at least one."""

Chosen = tuple[str, int]
"""A step or ending by name, and its K (0 if it has none)."""


def sentence(steps: Sequence[Chosen], ending: Chosen) -> str:
    """Return an English description of the program's steps and ending."""
    words = [STEPS[name].words.replace("K", str(k)) for name, k in steps]
    return f"For each number x: {'; then '.join(words)}. {ENDINGS[ending[0]].words.replace('K', str(ending[1]))}"


def reference(steps: Sequence[Chosen], ending: Chosen, numbers: Sequence[int]) -> str:
    """Return the program's output for a list of numbers. Only expressions of this file are evaluated."""
    template = ENDINGS[ending[0]]
    acc, printed = template.start, []
    update = compile((template.python or template.code).replace("K", str(ending[1])), "ending", "eval")
    parts = [(STEPS[name], compile(in_python(STEPS[name], k), name, "eval")) for name, k in steps]
    for i, x in enumerate(numbers, 1):
        passes = True
        for step, code in parts:
            value = eval(code, {"x": x, "i": i, "abs": abs, "min": min, "max": max})
            if step.keeps:
                passes = passes and value
            elif passes:
                x = value
        if passes:
            acc = eval(update, {"x": x, "acc": acc, "max": max})
            printed.append(acc)
    return "".join(f"{line}\n" for line in printed) if template.each else f"{acc}\n"


def in_python(step: ProgramStep, k: int) -> str:
    """Return a step's expression in Python."""
    return (step.python or step.code).replace("IDIV(x,K)", "x // K").replace("K", str(k))
