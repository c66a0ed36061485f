"""`equivalence_judge`, `rubric_judge`, `pairwise_judge`: a chat model judges the answers. See chat_judge.py.

A model can be misled, and its verdicts change with its version: prefer a rule if a rule can judge.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from agentgym import JudgeError, Policy, Reward, Trajectory
from agentgym.reward import SUCCESS, Components

from .chat_judge import HARMLESS, ChatJudge
from .final_answer import final_answer, gold_answers

JudgeConfig = Policy | Mapping[str, Any] | ChatJudge | None
EQUIVALENT = (
    "Does ANSWER say the same as GOLD, as an answer to QUESTION? Other words are fine; a missing or wrong part, "
    "several candidates, or a refusal are not. Say YES or NO."
)
MEETS = "Does ANSWER, given to QUESTION, meet the CRITERION? In doubt say NO. Say YES or NO."
BETTER = "Which is the better answer to QUESTION: A or B? Length alone makes neither better. Say A or B."


class _ModelJudge(Reward):
    """Base of the rewards in this file; it holds the judge."""

    def __init__(self, judge: JudgeConfig = None, argument: str = "text", **options: Any) -> None:
        self.judge = judge if isinstance(judge, ChatJudge) else ChatJudge(judge, **options)
        self.argument = argument

    def question_of(self, episode: Trajectory) -> str:
        """Return the task's own messages, without the environment's additions."""
        return "\n".join(message.text for message in episode.task.opening())


class EquivalenceJudge(_ModelJudge):
    """Outcome component `success`: 1.0 if a chat model finds the final answer equivalent to `truth["answer"]`.

    Without an answer it is 0.0, and the model is not asked.
    Source: strict YES/NO judge of MediX-R1, arXiv:2602.23363.

    Args:
        judge: a Policy, the name and options of one, or a ChatJudge. options: see ChatJudge.
        argument: the final tool's argument that holds the answer.
    """

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError without a gold answer, or if the model gives no verdict."""
        gold = gold_answers(episode, "equivalence_judge")
        answer = final_answer(episode, self.argument)
        if answer is None or not answer.strip():
            return {SUCCESS: 0.0}
        texts = {"QUESTION": self.question_of(episode), "GOLD": " | or: ".join(gold), "ANSWER": answer}
        verdict = await self.judge.verdict(EQUIVALENT, texts, written=("ANSWER",), worst="NO")
        return {SUCCESS: float(verdict == "YES")}


class RubricJudge(_ModelJudge):
    """Outcome components `rubric`, 0 to 1, the share of points that the final answer earns; and `success`.

    `truth["rubric"]` lists {"criterion": text, "points": number}; negative points are for faults. The model is asked
    about each criterion separately, YES or NO. `rubric` is the sum of the earned points divided by the sum of all
    positive points, at least 0. `success` is 1.0 if it reaches `pass_at`. `rubric` has weight 0: give it a weight to
    train on it.
    Source: RuscaRL, Zhou et al. 2025, arXiv:2508.16949, section 3.

    Args:
        pass_at: the value of `rubric`, above 0, from which on `success` is 1.0. The other arguments are as in
            EquivalenceJudge.
    """

    weights: Mapping[str, float] = {"rubric": 0.0}

    def __init__(self, judge: JudgeConfig = None, argument: str = "text", pass_at: float = 1.0, **options: Any) -> None:
        super().__init__(judge, argument, **options)
        if not 0 < pass_at <= 1:
            raise ValueError(f"pass_at = {pass_at!r} is not valid: give a share above 0 and at most 1.")
        self.pass_at = pass_at

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError without a rubric, or if the model gives no verdict on a criterion.
        """
        rubric = _rubric(episode)
        answer = final_answer(episode, self.argument)
        if answer is None or not answer.strip():
            return {"rubric": 0.0, SUCCESS: 0.0}
        texts = {"QUESTION": self.question_of(episode), "ANSWER": answer}
        verdicts = await asyncio.gather(
            *(
                self.judge.verdict(
                    MEETS,
                    {**texts, "CRITERION": criterion},
                    written=("ANSWER",),
                    worst="NO" if points > 0 else "YES",
                )
                for criterion, points in rubric
            )
        )
        earned = math.fsum(points for (_, points), verdict in zip(rubric, verdicts, strict=True) if verdict == "YES")
        share = max(earned, 0.0) / math.fsum(points for _, points in rubric if points > 0)
        return {"rubric": share, SUCCESS: float(share >= self.pass_at - 1e-9)}


class PairwiseJudge(_ModelJudge):
    """Outcome component `preference`, 0 to 1: how often a chat model prefers the episode's answer to others.

    Each pair is shown in both orders. An answer wins (1) only if it is preferred in both orders; otherwise the pair
    ties (0.5), so that a judge's preference for one position has no effect. An episode without an answer loses to any
    answer, and ties with another episode without one. Equal texts tie. A group of one has no component, unless it is
    compared with gold.

    Args:
        against: `group` compares all episodes with one of them, chosen by a hash; that one gets the mean result of its
            own comparisons (Writing-Zero, arXiv:2506.00103, section 3.3); `all` compares every pair of the group;
            `gold` compares with `truth["answer"]`. The other arguments are as in EquivalenceJudge.
    """

    def __init__(
        self, judge: JudgeConfig = None, argument: str = "text", against: str = "group", **options: Any
    ) -> None:
        super().__init__(judge, argument, **options)
        if against not in ("group", "all", "gold"):
            raise ValueError(f"against = {against!r} is not valid: choose group, all or gold.")
        self.against = against

    async def group(self, episodes: Sequence[Trajectory]) -> list[Components]:
        """Judge the episodes of a group. Raises: JudgeError if the model gives no verdict."""
        question = self.question_of(episodes[0])
        answers = [final_answer(episode, self.argument) or "" for episode in episodes]
        if self.against == "gold":
            gold = gold_answers(episodes[0], "pairwise_judge")[0]
            results = await asyncio.gather(*(self.compare(question, answer, gold) for answer in answers))
            return [{"preference": result} for result in results]
        pairs = list(combinations(range(len(episodes)), 2))
        if self.against == "group":
            reference = _chosen(answers)
            pairs = [pair for pair in pairs if reference in pair]
        results = await asyncio.gather(*(self.compare(question, answers[i], answers[j]) for i, j in pairs))
        points: list[list[float]] = [[] for _ in episodes]
        for (i, j), result in zip(pairs, results, strict=True):
            points[i].append(result)
            points[j].append(1.0 - result)
        return [{"preference": sum(row) / len(row)} if row else {} for row in points]

    async def compare(self, question: str, a: str, b: str) -> float:
        """Return 1.0 if the first answer wins, 0.0 if the second does, 0.5 for a tie.

        An answer that prevents a verdict loses to one that does not. Raises: JudgeError.
        """
        if a.strip() == b.strip():
            return 0.5
        if not a.strip() or not b.strip():
            return float(bool(a.strip()))
        questions = [{"QUESTION": question, "A": first, "B": second} for first, second in ((a, b), (b, a))]
        first, second = await asyncio.gather(*(self._better(texts) for texts in questions))
        if not first or not second:
            alone = [{"QUESTION": question, "A": answer, "B": HARMLESS} for answer in (a, b)]
            can_be_judged = [bool(await self._better(texts)) for texts in alone]
            return (1.0 + can_be_judged[0] - can_be_judged[1]) / 2.0
        return {("A", "B"): 1.0, ("B", "A"): 0.0}.get((first, second), 0.5)

    async def _better(self, texts: Mapping[str, str]) -> str:
        """Return A, B or, if the texts prevent a verdict, an empty text. Raises: JudgeError."""
        return await self.judge.verdict(BETTER, texts, ("A", "B"), written=("A", "B"))


def _chosen(answers: Sequence[str]) -> int:
    """Return the index of the answer that all others are compared with: equal lists of answers give the same index,
    which no agent can predict.
    """
    digest = hashlib.sha256("\x1f".join(answers).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % len(answers)


def _rubric(episode: Trajectory) -> list[tuple[str, float]]:
    truth = episode.task.truth
    rows = truth.get("rubric") if isinstance(truth, dict) else None
    try:
        criteria = [(str(row["criterion"]), float(row["points"])) for row in rows or ()]
    except (TypeError, KeyError, ValueError) as error:
        raise JudgeError(
            f"{episode.task.id}: a row of truth['rubric'] does not have a criterion and points: {error!r}."
        ) from error
    if not any(points > 0 for _, points in criteria) or not all(math.isfinite(points) for _, points in criteria):
        raise JudgeError(
            f"{episode.task.id} needs a truth['rubric'] with at least one criterion of more than 0 points."
        )
    return criteria
