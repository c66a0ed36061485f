"""`citation`: does the answer name the pages it is from? Outcome components `citation_precision`, `citation_recall`."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym import Reward
from agentgym.reward import Components, EpisodeView

from .evidence import folded, gold_pages, pages_read
from .final_answer import final_call


class Citation(Reward):
    """Compares the sources that the final call names with the gold pages, as sets of titles.

    Precision is the share of cited pages that are gold and were read by the agent; recall the share of gold pages
    that are so cited. A page that is cited unread counts as wrong: it was guessed. An episode that gave no answer,
    or a task without `truth["pages"]`, has neither component; an answer without sources has 0 in both.

    Source: Gao et al. 2023, "Enabling LLMs to generate text with citations" (ALCE), arXiv:2305.14627, sec. 3, with
    titles of gold pages in place of its entailment model.

    Args:
        argument: of the final call that holds the list of titles.
    """

    weights: Mapping[str, float] = {"citation_precision": 0.1, "citation_recall": 0.1}

    def __init__(self, argument: str = "sources") -> None:
        self.argument = argument

    def outcome(self, episode: EpisodeView) -> Components:
        """Raises: JudgeError if the task has no truth."""
        gold = gold_pages(episode)
        cited = self._cited(episode)
        if not gold or cited is None:
            return {}
        read = {folded(title) for turn in episode.turns for title in pages_read(turn)}
        right = cited & gold & read
        return {
            "citation_precision": len(right) / len(cited) if cited else 0.0,
            "citation_recall": len(right) / len(gold),
        }

    def _cited(self, episode: EpisodeView) -> set[str] | None:
        """Titles that the first successful final call names; None if there is no such call."""
        found = final_call(episode)
        if found is None:
            return None
        named = found[0].arguments.get(self.argument)
        titles = named if isinstance(named, list | tuple) else ()
        return {folded(title) for title in titles if isinstance(title, str)}
