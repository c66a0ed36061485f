"""`equivalence_judge`, `rubric_judge`, `pairwise_judge`: answers judged by a chat model. See chat_judge.py.

A model can be misled and changes with its version: where a rule can judge, let the rule judge.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from agentgym import JudgeError, Reward
from agentgym.policy import Policy
from agentgym.reward import SUCCESS, Components, EpisodeView

from .chat_judge import ChatJudge
from .final_answer import final_answer, gold_answers

Asked = Policy | Mapping[str, Any] | ChatJudge | None
EQUIVALENT = (
    "Does ANSWER say the same as GOLD, as an answer to QUESTION? Other words are fine; a missing or wrong part, "
    "several candidates, or a refusal are not. Say YES or NO."
)
MEETS = "Does ANSWER, given to QUESTION, meet the CRITERION? In doubt say NO. Say YES or NO."
BETTER = "Which is the better answer to QUESTION: A or B? Length alone makes neither better. Say A or B."


class _Judged(Reward):
    """What the judges here share: whom they ask, and what of an episode they show."""

    def __init__(self, judge: Asked = None, argument: str = "text", **options: Any) -> None:
        self.judge = judge if isinstance(judge, ChatJudge) else ChatJudge(judge, **options)
        self.argument = argument

    def question_of(self, episode: EpisodeView) -> str:
        """What the agent was asked, without what the environment adds."""
        return "\n".join(message.text for message in episode.task.opening())


class EquivalenceJudge(_Judged):
    """Outcome component `success`: 1.0 if a chat model says YES, the final answer says what `truth["answer"]` says.

    Without an answer it is 0.0, and nobody is asked.
    Source: strict YES/NO judge of MediX-R1, arXiv:2602.23363.

    Args:
        judge: who is asked: a Policy, the settings of one, or a ChatJudge. `options`: see ChatJudge.
        argument: the final tool's argument that holds the answer.
    """

    async def outcome(self, episode: EpisodeView) -> Components:
        """Raises: JudgeError without gold, or if the model gives no verdict."""
        gold = gold_answers(episode, "equivalence_judge")
        answer = final_answer(episode, self.argument)
        if answer is None or not answer.strip():
            return {SUCCESS: 0.0}
        texts = {"QUESTION": self.question_of(episode), "GOLD": " | or: ".join(gold), "ANSWER": answer}
        return {SUCCESS: float(await self.judge.verdict(EQUIVALENT, texts) == "YES")}


class RubricJudge(_Judged):
    """Outcome components `rubric`, 0 to 1, the share of points that the final answer earns; and `success`.

    `truth["rubric"]` lists {"criterion": text, "points": number}; points below 0 are for faults. Each criterion is a
    question of its own, YES or NO. The share is of the points above 0, and never below 0. `success` is 1.0 from
    `pass_at` of them on, and `rubric` counts 0 beside it: give it a weight to train on it.
    Source: RuscaRL, Zhou et al. 2025, arXiv:2508.16949, section 3.

    Args:
        pass_at: share of the points that is a success, above 0. Others: as for EquivalenceJudge.
    """

    weights: Mapping[str, float] = {"rubric": 0.0}

    def __init__(self, judge: Asked = None, argument: str = "text", pass_at: float = 1.0, **options: Any) -> None:
        super().__init__(judge, argument, **options)
        if not 0 < pass_at <= 1:
            raise ValueError(f"pass_at is {pass_at!r}: give a share above 0 and at most 1.")
        self.pass_at = pass_at

    async def outcome(self, episode: EpisodeView) -> Components:
        """Raises: JudgeError without a rubric, or if the model gives no verdict on a criterion."""
        rubric = _rubric(episode)
        answer = final_answer(episode, self.argument)
        if answer is None or not answer.strip():
            return {"rubric": 0.0, SUCCESS: 0.0}
        texts = {"QUESTION": self.question_of(episode), "ANSWER": answer}
        verdicts = await asyncio.gather(
            *(self.judge.verdict(MEETS, {**texts, "CRITERION": criterion}) for criterion, _ in rubric)
        )
        earned = math.fsum(points for (_, points), said in zip(rubric, verdicts, strict=True) if said == "YES")
        share = max(earned, 0.0) / math.fsum(points for _, points in rubric if points > 0)
        return {"rubric": share, SUCCESS: float(share >= self.pass_at - 1e-9)}


class PairwiseJudge(_Judged):
    """Outcome component `preference`, 0 to 1: how often a chat model prefers the episode's answer to others.

    Each pair is asked in both orders. An answer wins (1) only if it is preferred in both places; else they tie (0.5),
    so that a judge who prefers a place decides nothing. No answer loses to any; two of them tie. Equal texts tie.
    A group of one has nothing to be compared with, and no component, unless it is compared with gold.

    Args:
        against: `group`, one episode of the group, chosen by a hash, is the reference of all others and gets the mean
            of what it won (Writing-Zero, arXiv:2506.00103, section 3.3); `all`, every pair of the group; `gold`, the
            text in `truth["answer"]`. Others: as for EquivalenceJudge.
    """

    def __init__(self, judge: Asked = None, argument: str = "text", against: str = "group", **options: Any) -> None:
        super().__init__(judge, argument, **options)
        if against not in ("group", "all", "gold"):
            raise ValueError(f"against is {against!r}: choose group, all or gold.")
        self.against = against

    async def group(self, episodes: Sequence[EpisodeView]) -> list[Components]:
        """Raises: JudgeError if the model gives no verdict."""
        question = self.question_of(episodes[0])
        answers = [final_answer(episode, self.argument) or "" for episode in episodes]
        if self.against == "gold":
            gold = gold_answers(episodes[0], "pairwise_judge")[0]
            won = await asyncio.gather(*(self.compare(question, answer, gold) for answer in answers))
            return [{"preference": one} for one in won]
        pairs = list(combinations(range(len(episodes)), 2))
        if self.against == "group":
            reference = _chosen(answers)
            pairs = [pair for pair in pairs if reference in pair]
        results = await asyncio.gather(*(self.compare(question, answers[one], answers[two]) for one, two in pairs))
        points: list[list[float]] = [[] for _ in episodes]
        for (one, two), won_by_one in zip(pairs, results, strict=True):
            points[one].append(won_by_one)
            points[two].append(1.0 - won_by_one)
        return [{"preference": sum(row) / len(row)} if row else {} for row in points]

    async def compare(self, question: str, one: str, two: str) -> float:
        """1.0 if the first answer wins, 0.0 if the second, 0.5 for a tie. Raises: JudgeError."""
        if one.strip() == two.strip():
            return 0.5
        if not one.strip() or not two.strip():
            return float(bool(one.strip()))
        asked = [{"QUESTION": question, "A": a, "B": b} for a, b in ((one, two), (two, one))]
        first, second = await asyncio.gather(*(self.judge.verdict(BETTER, texts, ("A", "B")) for texts in asked))
        return {("A", "B"): 1.0, ("B", "A"): 0.0}.get((first, second), 0.5)


def _chosen(answers: Sequence[str]) -> int:
    """Which answer is the reference: no agent knows beforehand, and it is the same again."""
    digest = hashlib.sha256("\x1f".join(answers).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % len(answers)


def _rubric(episode: EpisodeView) -> list[tuple[str, float]]:
    truth = episode.task.truth
    rows = truth.get("rubric") if isinstance(truth, dict) else None
    try:
        found = [(str(row["criterion"]), float(row["points"])) for row in rows or ()]
    except (TypeError, KeyError, ValueError) as error:
        raise JudgeError(
            f"{episode.task.id}: a row of truth['rubric'] is no criterion with points: {error!r}."
        ) from error
    if not any(points > 0 for _, points in found) or not all(math.isfinite(points) for _, points in found):
        raise JudgeError(f"{episode.task.id} has no truth['rubric'] with a criterion of more than 0 points.")
    return found
