"""The kinds of tasks that an evaluation is broken down by: tags of enough tasks, in a readable order."""

from __future__ import annotations

import re

from agentgym.evaluation.record import Evaluation
from agentgym.text import counted

MIN_TASKS = 5
"""A tag of fewer tasks is counted and not shown: the interval of its success would span nearly everything."""


def strata(evaluation: Evaluation, most: int, first: str | None = None) -> tuple[list[str], str]:
    """Return the tags to show, and a phrase on those that are left out; empty if none is.

    A tag of all tasks says nothing, and is never shown.

    Args:
        most: how many tags to show at most; those of most tasks are kept, and stand in the order of their names.
        first: a tag to show first, if tasks have it, whatever their number.
    """
    counts = {tag: len(evaluation.select(tag)) for tag in evaluation.tags}
    kinds = [tag for tag, count in counts.items() if count < len(evaluation.rows) and tag != first]
    large = [tag for tag in kinds if counts[tag] >= MIN_TASKS]
    chosen = sorted(large[:most], key=_natural)
    phrases = []
    if beyond := len(large) - len(chosen):
        phrases.append(f"{beyond:,} more")
    if small := len(kinds) - len(large):
        phrases.append(f"{counted(small, 'kind')} of fewer than {MIN_TASKS} tasks")
    return [*([first] if first in counts else []), *chosen], " and ".join(phrases)


def _natural(tag: str) -> list[tuple[int, str]]:
    """Return a key that orders numbers inside of names by their value: hops_2 before hops_10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", tag)]
