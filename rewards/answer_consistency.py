"""`answer_consistency`: a bonus for right answers that follow from the reasoning before them, compared in the group.

A slowly following copy of the policy says how likely the answer is after the reasoning. Right answers that are at
least as likely as the group's mean get the bonus.
Source: GRPO-CARE, Chen et al. 2025, arXiv:2506.16141, section 4. The margin, and that the mean is over the right
answers of the group, are as we read it; the copy follows by an exponential moving average.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import Reward
from agentgym.policy import Policy
from agentgym.reward import Components, EpisodeView

from .answer_likelihood import answer_message, before_answer, has_tokens, probabilities, renderer_of
from .final_answer import final_answer
from .needed_success import succeeded


class AnswerConsistency(Reward):
    """Outcome components `consistency`, 1.0 for a right answer that its reasoning makes likely, else 0.0; and
    `answer_likelihood`, the mean probability of the answer's tokens, of weight 0, where there is an answer.

    Asked when the group is complete: it needs the `success` that another reward gave. A group with an episode whose
    tokens are not known (of a script or an API) has neither component.

    Args:
        reference: who is asked; None for a copy of the policy that plays, which follows it as training goes on.
        decay: share of itself that the copy keeps at each update, 0 to 1. `every`: steps between two updates.
        most: a token's probability counts at most so much. `margin`: how far below the mean still counts.
        tool, argument: of the final call that answers; tool None if it is spoken.
    """

    weights: Mapping[str, float] = {"consistency": 0.5, "answer_likelihood": 0.0}

    def __init__(
        self,
        reference: Policy | None = None,
        *,
        decay: float = 0.995,
        every: int = 10,
        most: float = 0.95,
        margin: float = 0.01,
        tool: str | None = "answer",
        argument: str = "text",
    ) -> None:
        if not (0.0 <= decay <= 1.0 and every >= 1 and 0.0 < most <= 1.0 and margin >= 0.0):
            raise ValueError(
                f"Need 0 <= decay <= 1, every >= 1, 0 < most <= 1, margin >= 0: {decay, every, most, margin}."
            )
        self.reference, self.decay, self.every = reference, decay, every
        self.most, self.margin, self.tool, self.argument = most, margin, tool, argument
        self._follows: Any = None  # the model that is followed
        self._steps = 0

    def bind_policy(self, policy: Policy) -> None:
        """Make the copy that follows, once. A policy without a model in this process is asked itself."""
        if self.reference is not None:
            return
        model = getattr(policy, "model", None)
        if model is None or not hasattr(model, "parameters"):
            self.reference = policy
            return
        from agentgym.policy import TransformersPolicy

        twin = copy.deepcopy(model).eval().requires_grad_(False)
        self._follows = model
        self.reference = TransformersPolicy(twin, policy.renderer)  # type: ignore[arg-type]

    def set_progress(self, progress: float) -> None:
        """One step of training is about to begin: after each `every` of them the copy follows."""
        self._steps += 1
        if self._follows is None or (self._steps - 1) % self.every or self._steps == 1:
            return
        twin: Any = self.reference
        for slow, fast in zip(twin.model.parameters(), self._follows.parameters(), strict=True):
            slow.data.lerp_(fast.data, 1.0 - self.decay)

    async def group(self, episodes: Sequence[EpisodeView]) -> list[Components]:
        """Raises: JudgeError without `success` or a policy that can score; PolicyError if it fails."""
        if not all(map(has_tokens, episodes)):
            return [{} for _ in episodes]
        wins = [succeeded(episode, "answer_consistency") for episode in episodes]
        likely = [await self._likelihood(episode) for episode in episodes]
        right = [one for one, won in zip(likely, wins, strict=True) if one is not None and won]
        bar = sum(right) / len(right) - self.margin if right else math.inf
        found: list[Components] = []
        for one, won in zip(likely, wins, strict=True):
            follows = one is not None and won and one >= bar
            found.append({"consistency": float(follows)} | ({} if one is None else {"answer_likelihood": one}))
        return found

    async def _likelihood(self, episode: EpisodeView) -> float | None:
        """The mean probability of the answer's tokens after the reasoning, each at most `most`; None without answer."""
        renderer = renderer_of(self.reference, "answer_consistency")
        assert self.reference is not None
        answer = final_answer(episode, self.argument)
        if answer is None:
            return None
        ids = renderer.encode(answer_message(answer, self.tool, self.argument))
        found = await probabilities(self.reference, before_answer(episode, ids), ids)
        return sum(min(one, self.most) for one in found) / len(found)
