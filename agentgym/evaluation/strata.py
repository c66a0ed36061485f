"""The kinds of tasks that an evaluation is broken down by: tags of enough tasks, in a readable order."""

from __future__ import annotations

import re

from agentgym.evaluation.record import Evaluation
from agentgym.text import counted

MIN_TASKS = 5
"""A tag with fewer tasks is counted but not shown: the interval of its success rate would be nearly [0, 1]."""


def strata(evaluation: Evaluation, most: int, first: str | None = None) -> tuple[list[str], str]:
    """Return the tags to show, and a phrase about the omitted tags, which is empty if no tag is omitted.

    A tag that all tasks have says nothing, and is never shown unless it is `first`.

    Args:
        most: maximum number of tags besides `first`. The most frequent tags are kept, and listed in the order of their
            names.
        first: a tag to show first if any task has it, even if fewer than MIN_TASKS do.
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
    """Return a sort key that orders numbers inside names by their value: hops_2 before hops_10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", tag)]
