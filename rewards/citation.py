"""`citation`: whether the answer cites its pages. Outcome components `citation_precision` and `citation_recall`."""

from __future__ import annotations

from collections.abc import Mapping

from agentgym import Reward, Trajectory
from agentgym.reward import Components

from .evidence import folded, gold_pages, pages_read
from .final_answer import final_call


class Citation(Reward):
    """Compares the sources of the final call with the gold pages, as sets of titles.

    Precision is the share of cited pages that are gold and that the agent read; recall is the share of gold pages that
    the agent read and cited. A cited page that was not read is a guess, and counts as wrong. An episode without an
    answer, or a task without `truth["pages"]`, has neither component; an answer without sources has 0 in both.

    Source: Gao et al. 2023, "Enabling LLMs to generate text with citations" (ALCE), arXiv:2305.14627, sec. 3, with
    titles of gold pages in place of its entailment model.

    Args:
        argument: the final call's argument with the list of titles.
    """

    weights: Mapping[str, float] = {"citation_precision": 0.1, "citation_recall": 0.1}

    def __init__(self, argument: str = "sources") -> None:
        self.argument = argument

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task has no truth."""
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

    def _cited(self, episode: Trajectory) -> set[str] | None:
        """Return the titles in the first successful final call; None without such a call."""
        final = final_call(episode)
        if final is None:
            return None
        named = final[0].arguments.get(self.argument)
        titles = named if isinstance(named, list | tuple) else ()
        return {folded(title) for title in titles if isinstance(title, str)}
