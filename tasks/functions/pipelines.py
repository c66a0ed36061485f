"""Families composed of steps: two steps and an ending make band 4, three steps and an ending make band 5."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentgym import seed_of

from .family import Family


@dataclass(frozen=True, slots=True)
class PipelineStep:
    """One operation on the list `x`, in English and as an expression. `k` lists the values of its parameter `$k`."""

    words: str
    code: str
    k: Sequence[int] = ()


STEPS: Mapping[str, PipelineStep] = {
    "above": PipelineStep("keep the numbers above $k", "[v for v in x if v > $k]", range(-10, 12)),
    "multiples": PipelineStep("keep the numbers divisible by $k", "[v for v in x if v % $k == 0]", (2, 3)),
    "no_multiples": PipelineStep("remove the numbers divisible by $k", "[v for v in x if v % $k]", range(2, 8)),
    "add": PipelineStep("add $k to each number", "[v + $k for v in x]", range(1, 16)),
    "times": PipelineStep("multiply each number by $k", "[v * $k for v in x]", range(2, 10)),
    "modulo": PipelineStep("replace each number by its remainder divided by $k", "[v % $k for v in x]", range(5, 18)),
    "minus_first": PipelineStep("subtract the first number from every number", "[v - x[0] for v in x]"),
    "backwards": PipelineStep("reverse the list", "x[::-1]"),
    "sorted": PipelineStep("sort the list in ascending order", "sorted(x)"),
    "skip": PipelineStep("leave out the first $k items", "x[$k:]", (1, 2, 3)),
    "front": PipelineStep("keep at most the first $k items", "x[:$k]", range(2, 7)),
    "distinct": PipelineStep("keep only the first of equal numbers", "list(dict.fromkeys(x))"),
    "running": PipelineStep(
        "replace each number by the sum of all up to and including it", "[sum(x[: i + 1]) for i in range(len(x))]"
    ),
    "gaps": PipelineStep(
        "replace the list by the differences of each number and the one before it", "[b - a for a, b in zip(x, x[1:])]"
    ),
    "limit": PipelineStep("lower every number above $k to $k", "[min(v, $k) for v in x]", range(8, 30)),
    "positions": PipelineStep(
        "multiply each number by its index, counted from 1", "[v * i for i, v in enumerate(x, 1)]"
    ),
}

ENDS: Mapping[str, PipelineStep] = {
    "sum": PipelineStep("return the sum", "sum(x)"),
    "most": PipelineStep("return the largest number, or $k if none is left", "max(x, default=$k)", range(-30, -20)),
    "least": PipelineStep("return the smallest number, or $k if none is left", "min(x, default=$k)", range(50, 60)),
    "squares": PipelineStep("return the sum of the squares", "sum(v * v for v in x)"),
    "list": PipelineStep("return the list", "x"),
    "text": PipelineStep("return the numbers as one string, joined by commas", "','.join(map(str, x))"),
    "spread": PipelineStep(
        "return the largest minus the smallest number, or $k if none is left",
        "max(x) - min(x) if x else $k",
        range(-9, 0),
    ),
    "weighed": PipelineStep(
        "return the sum of all numbers, plus $k for each number there is", "sum(x) + $k * len(x)", range(3, 12)
    ),
}

FAMILIES_PER_BAND = 30
LEAST_SPACE = 12
"""A combination of steps with fewer combinations of parameter values than this is skipped."""


def pipelines() -> tuple[Family, ...]:
    """Return the composed families, every fifth of them held out. The combinations of steps come from a fixed seed."""
    families: list[Family] = []
    for band, length in ((4, 2), (5, 3)):
        chains = list(itertools.permutations(STEPS, length))
        random.Random(seed_of("code/functions-v1", "pipelines", band)).shuffle(chains)
        total = len(families) + FAMILIES_PER_BAND
        while len(families) < total:
            number, chain = len(families), chains.pop()
            end = list(ENDS)[number % len(ENDS)]
            family = _family(band, chain, end, held_out=number % 5 == 0)
            nearly_constant = "limit" in chain and end == "most"  # the largest number is nearly always the limit
            if len(family.space()) >= LEAST_SPACE and not nearly_constant:
                families.append(family)
    return tuple(families)


def _family(band: int, chain: Sequence[str], end: str, *, held_out: bool) -> Family:
    values: dict[str, Sequence[object]] = {}
    words, body = [], ["x = list(numbers)"]
    for position, step in enumerate([*(STEPS[name] for name in chain), ENDS[end]]):
        if step.k:
            values[f"k{position}"] = step.k
        words.append(step.words.replace("$k", f"$k{position}"))
        body.append(("x = " if position < len(chain) else "return ") + step.code.replace("$k", f"$k{position}"))
    sentence = f"First {words[0]}; " + "".join(f"then {text}; " for text in words[1:-1]) + f"at last {words[-1]}."
    return Family("_".join((*chain, end)), band, "numbers", values, sentence, "\n".join(body), held_out)
