"""`evidence`: did a turn read a page that the answer needs? Turn component `evidence`, at most 1.0 over an episode."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agentgym import Call, JudgeError, Result, Reward
from agentgym.reward import Components, EpisodeView, TurnView

READERS = ("open", "follow")
_HEADING = re.compile(r"# (.+?)( \(part \d+ of \d+\))?")
_PASSAGE = re.compile(r'Doc \d+\(Title: "(.*?)"\) ')


class Evidence(Reward):
    """Pays each gold page once, in the turn that first reads it: 1/n of n pages.

    Gold pages are the titles in `truth["pages"]`, a list or the keys of an object; a task without them has no such
    component. A page is read when `open` or `follow` showed it, or a retriever gave it as a whole passage;
    being listed among search results is not enough. Only the first line of a result is believed, and of a passage
    its beginning: what a page's own text claims to be does not count.

    Source of the idea: the evidence-selection reward of ARENA (Ren et al. 2025) and of other trained readers.
    """

    weights: Mapping[str, float] = {"evidence": 0.3}

    def turn(self, turn: TurnView, episode: EpisodeView) -> Components:
        """Raises: JudgeError if the task has no truth."""
        gold = gold_pages(episode)
        if not gold:
            return {}
        before = {title for past in episode.turns if past.index < turn.index for title in pages_read(past)}
        new = {folded(title) for title in pages_read(turn)} - {folded(title) for title in before}
        return {"evidence": len(new & gold) / len(gold)}


def gold_pages(episode: EpisodeView) -> set[str]:
    """The titles, folded, of the pages that the answer needs; none if the task does not say.

    Raises: JudgeError if the task has no truth, or says it in another form.
    """
    truth: Any = episode.task.truth
    if not isinstance(truth, Mapping):
        raise JudgeError(f"{episode.task.id} has no truth, so nothing says which pages its answer needs.")
    pages = truth.get("pages", ())
    if not isinstance(pages, (Mapping, Sequence)) or isinstance(pages, str):
        raise JudgeError(f"{episode.task.id}: truth['pages'] is {pages!r}, where titles are expected.")
    return {folded(str(title)) for title in pages}


def pages_read(turn: TurnView) -> list[str]:
    """Titles of the pages that a turn's results show, in order."""
    return [title for call, result in zip(turn.calls, turn.results, strict=False) for title in _read(call, result)]


def folded(title: str) -> str:
    """A title as titles are compared."""
    return " ".join(title.casefold().split())


def _read(call: Call, result: Result) -> Collection[str]:
    if not result.ok or not isinstance(result.content, str):
        return ()
    if call.name in READERS:
        heading = _HEADING.fullmatch(result.content.partition("\n")[0])
        return (heading[1],) if heading else ()
    if call.name == "search" and result.content.startswith("<information>"):
        lines = result.content.removeprefix("<information>").split("\n")
        return [found[1] for line in lines if (found := _PASSAGE.match(line))]
    return ()
