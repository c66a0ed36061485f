"""`majority_vote` and `co_reward`: judge answers by the group's majority, without a gold answer.

The majority may be wrong, and a policy can agree with itself on nonsense: suspect this if `agreement` nears 1 while
held-out success does not rise. Evaluate with a reward that knows the truth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agentgym import JudgeError, Reward, Trajectory
from agentgym.reward import Components, comparison

from .final_answer import final_answer
from .symbolic_maths import equivalent

COMPARE: Mapping[str, Callable[[str, str], bool]] = {"text": comparison.same_answer, "maths": equivalent}
MAX_CLASSES = 64


class MajorityVote(Reward):
    """Outcome components `vote`, 1.0 for the group's most frequent answer, and `agreement`, that answer's share.

    An episode without an answer casts no vote, and its `vote` is 0. Among answers with equally many votes the first
    wins. In a group with fewer than two answers every `vote` is 0, and `agreement` is missing. `agreement` has weight
    0.
    Source: TTRL, Zuo et al. 2025, arXiv:2504.16084, section 2.

    Args:
        argument: the final tool's argument that holds the answer.
        compare: `text` (as answer_match) or `maths` (as symbolic_maths).
    """

    weights: Mapping[str, float] = {"agreement": 0.0}

    def __init__(self, argument: str = "text", compare: str = "text") -> None:
        if compare not in COMPARE:
            raise ValueError(f"compare = {compare!r} is not valid: choose one of {', '.join(COMPARE)}.")
        self.argument, self.same = argument, COMPARE[compare]

    def group(self, episodes: Sequence[Trajectory]) -> list[Components]:
        answers = [final_answer(episode, self.argument) for episode in episodes]
        label, share = self.winner(answers)
        if label is None:
            return [{"vote": 0.0} for _ in episodes]
        return [
            {"vote": float(answer is not None and self.same(answer, label)), "agreement": share} for answer in answers
        ]

    def winner(self, answers: Sequence[str | None]) -> tuple[str | None, float]:
        """Return the answer with the most votes, and its share of all episodes; (None, 0.0) with fewer than two
        answers.
        """
        voted = [answer for answer in answers if answer is not None and answer.strip()]
        if len(voted) < 2:
            return None, 0.0
        classes: list[list[str]] = []
        for answer in voted:
            matching = next((members for members in classes if self.same(answer, members[0])), None)
            if matching is not None:
                matching.append(answer)
            elif len(classes) < MAX_CLASSES:
                classes.append([answer])
        best = max(classes, key=len)  # the first on ties
        return best[0], len(best) / len(answers)


@dataclass(slots=True)
class _WaitingGroup:
    """The group of a pair that finished first: its own label (majority answer), and a future for the other group's
    label.
    """

    task: str
    label: str | None
    other_label: asyncio.Future[str | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class CoReward(MajorityVote):
    """Outcome components `vote` and `agreement` as in majority_vote, by the majority answer to the other phrasing.

    Two tasks with the same question in different words have the same `truth["pair"]`, and the sampler `paired` draws
    them in the same step. Each group waits for the other's majority answer, at most as long as a judge may take.
    Agreement within one group earns nothing.
    Source: Co-Reward, Zhang et al. 2025, arXiv:2508.00410, section 3.
    """

    sampler = "paired"

    def __init__(self, argument: str = "text", compare: str = "text") -> None:
        super().__init__(argument, compare)
        self._waiting: dict[str, list[_WaitingGroup]] = {}

    async def group(self, episodes: Sequence[Trajectory]) -> list[Components]:  # type: ignore[override]
        """Judge the episodes of a group. Raises: JudgeError if the task has no pair."""
        task = episodes[0].task
        if (pair := task.pair) is None:
            raise JudgeError(
                f"{task.id} has no truth['pair'], so co_reward does not know which other task asks the same. Give "
                "both tasks the same one."
            )
        answers = [final_answer(episode, self.argument) for episode in episodes]
        own, share = self.winner(answers)
        label = await self._others_label(pair, task.id, own)
        if label is None:
            return [{"vote": 0.0} for _ in episodes]
        return [
            {"vote": float(answer is not None and self.same(answer, label)), "agreement": share} for answer in answers
        ]

    async def _others_label(self, pair: str, task: str, own: str | None) -> str | None:
        waiting = self._waiting.setdefault(pair, [])
        for group in waiting:
            if group.task != task:
                waiting.remove(group)
                group.other_label.set_result(own)
                return group.label
        group = _WaitingGroup(task, own)
        waiting.append(group)
        try:
            return await group.other_label
        finally:
            if group in waiting:
                waiting.remove(group)
