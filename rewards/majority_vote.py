"""`majority_vote` and `co_reward`: answers judged by what most of the group answers, without any gold answer.

What most say may be wrong, and a policy can agree with itself on nonsense: watch `agreement` near 1 while
held-out success stands still. Evaluate with a reward that knows the truth.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agentgym import JudgeError, Reward
from agentgym.reward import Components, EpisodeView

from .answer_match import same_answer
from .final_answer import final_answer
from .symbolic_maths import equivalent

COMPARE: Mapping[str, Callable[[str, str], bool]] = {"text": same_answer, "maths": equivalent}
MAX_CLASSES = 64


class MajorityVote(Reward):
    """Outcome components `vote`, 1.0 for who answers as most of the group do, else 0.0; and `agreement`, their share.

    Who did not answer has no vote and earns 0. Of answers with equally many votes the first given counts. Fewer than
    two answers decide nothing: the components are missing. `agreement` has weight 0.
    Source: TTRL, Zuo et al. 2025, arXiv:2504.16084, section 2.

    Args:
        argument: the final tool's argument that holds the answer.
        compare: `text` (as answer_match) or `maths` (as symbolic_maths).
    """

    weights: Mapping[str, float] = {"agreement": 0.0}

    def __init__(self, argument: str = "text", compare: str = "text") -> None:
        if compare not in COMPARE:
            raise ValueError(f"compare is {compare!r}: choose one of {', '.join(COMPARE)}.")
        self.argument, self.same = argument, COMPARE[compare]

    def group(self, episodes: Sequence[EpisodeView]) -> list[Components]:
        answers = [final_answer(episode, self.argument) for episode in episodes]
        label, share = self.winner(answers)
        if label is None:
            return [{} for _ in episodes]
        return [{"vote": float(one is not None and self.same(one, label)), "agreement": share} for one in answers]

    def winner(self, answers: Sequence[str | None]) -> tuple[str | None, float]:
        """The answer with most votes and its share of all episodes; None if fewer than two answered."""
        given = [answer for answer in answers if answer is not None and answer.strip()]
        if len(given) < 2:
            return None, 0.0
        classes: list[list[str]] = []
        for answer in given:
            found = next((members for members in classes if self.same(answer, members[0])), None)
            if found is not None:
                found.append(answer)
            elif len(classes) < MAX_CLASSES:
                classes.append([answer])
        best = max(classes, key=len)  # the first of equals
        return best[0], len(best) / len(answers)


@dataclass(slots=True)
class _Meeting:
    """Two groups of one pair: who came first waits for the other's label."""

    task: str
    label: str | None
    other: asyncio.Future[str | None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class CoReward(MajorityVote):
    """Outcome components `vote` and `agreement` as majority_vote, but the label is the other phrasing's majority.

    Two tasks that ask the same in other words carry the same `truth["pair"]`, and are played in the same step: each
    group waits for the other's label, as long as a judge may take. Agreeing with oneself earns nothing here.
    Source: Co-Reward, Zhang et al. 2025, arXiv:2508.00410, section 3.
    """

    def __init__(self, argument: str = "text", compare: str = "text") -> None:
        super().__init__(argument, compare)
        self._open: dict[str, list[_Meeting]] = {}

    async def group(self, episodes: Sequence[EpisodeView]) -> list[Components]:  # type: ignore[override]
        """Raises: JudgeError if the task belongs to no pair."""
        task = episodes[0].task
        if not isinstance(task.truth, dict) or "pair" not in task.truth:
            raise JudgeError(f"{task.id} has no truth['pair'], so co_reward cannot tell which task asks the same.")
        answers = [final_answer(episode, self.argument) for episode in episodes]
        own, share = self.winner(answers)
        label = await self._others_label(str(task.truth["pair"]), task.id, own)
        if label is None:
            return [{} for _ in episodes]
        return [{"vote": float(one is not None and self.same(one, label)), "agreement": share} for one in answers]

    async def _others_label(self, pair: str, task: str, own: str | None) -> str | None:
        waiting = self._open.setdefault(pair, [])
        for meeting in waiting:
            if meeting.task != task:
                waiting.remove(meeting)
                meeting.other.set_result(own)
                return meeting.label
        meeting = _Meeting(task, own)
        waiting.append(meeting)
        try:
            return await meeting.other
        finally:
            if meeting in waiting:
                waiting.remove(meeting)
