"""`evidence`: whether a turn read a page that the answer needs. Turn component `evidence`, at most 1.0 per episode."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agentgym import Call, JudgeError, Result, Reward, Trajectory, Turn
from agentgym.reward import Components, fold_text

READERS = ("open", "follow")
_HEADING = re.compile(r"# (.+?)( \(part \d+ of \d+\))?")
_PASSAGE = re.compile(r'Doc \d+\(Title: "(.*?)"\) ')


class Evidence(Reward):
    """Rewards each of n gold pages once with 1/n, in the turn that first reads it.

    The titles of the gold pages are `truth["pages"]`, a list or an object's keys; an episode of a task without them has
    no component. A page counts as read when `open` or `follow` showed it, or when a retriever returned it as a whole
    passage; a search result that lists it is not enough. Titles are read from the first line of a result, or from the
    beginning of a passage, so that a page's text cannot pretend to be another page.

    Source of the idea: the evidence-selection reward of ARENA (Ren et al. 2025) and of other trained readers.
    """

    weights: Mapping[str, float] = {"evidence": 0.3}

    def turn(self, turn: Turn, episode: Trajectory) -> Components:
        """Judge a turn. Raises: JudgeError if the task has no truth."""
        gold = gold_pages(episode)
        if not gold:
            return {}
        before = {title for past in episode.turns if past.index < turn.index for title in pages_read(past)}
        new = {folded(title) for title in pages_read(turn)} - {folded(title) for title in before}
        return {"evidence": len(new & gold) / len(gold)}


def gold_pages(episode: Trajectory) -> set[str]:
    """Return the folded titles of the pages that the answer needs; empty if the truth has no `pages`.

    Raises: JudgeError if the task has no truth, or if `pages` has another form.
    """
    truth: Any = episode.task.truth
    if not isinstance(truth, Mapping):
        raise JudgeError(f"{episode.task.id} has no truth, so it is not known which pages its answer needs.")
    pages = truth.get("pages", ())
    if not isinstance(pages, (Mapping, Sequence)) or isinstance(pages, str):
        raise JudgeError(f"{episode.task.id}: truth['pages'] must list titles, not {pages!r}.")
    return {folded(str(title)) for title in pages}


def pages_read(turn: Turn) -> list[str]:
    """Return the titles of the pages in a turn's results, in order."""
    return [title for call, result in zip(turn.calls, turn.results, strict=False) for title in _read(call, result)]


def folded(title: str) -> str:
    """Return a title in normalised form for comparison."""
    return fold_text(title)


def _read(call: Call, result: Result) -> Collection[str]:
    if not result.ok or not isinstance(result.content, str):
        return ()
    if call.name in READERS:
        heading = _HEADING.fullmatch(result.content.partition("\n")[0])
        return (heading[1],) if heading else ()
    if call.name == "search" and result.content.startswith("<information>"):
        lines = result.content.removeprefix("<information>").split("\n")
        return [passage[1] for line in lines if (passage := _PASSAGE.match(line))]
    return ()
