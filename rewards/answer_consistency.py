"""`answer_consistency`: a bonus for right answers that follow from the reasoning before them, compared in the group.

A slowly updated copy of the policy computes how likely the answer is after the reasoning. Right answers that are at
least as likely as the mean of the group's right answers get the bonus.
Source: GRPO-CARE, Chen et al. 2025, arXiv:2506.16141, section 4. The margin, and averaging over right answers only, are
our interpretation. The copy is an exponential moving average of the policy's weights.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import Policy, Reward, Trajectory
from agentgym.reward import Components

from .answer_likelihood import answer_message, before_answer, has_tokens, probabilities, renderer_of
from .final_answer import final_answer
from .needed_success import succeeded


class AnswerConsistency(Reward):
    """Outcome components `consistency`, 1.0 for a right answer that its reasoning makes likely, else 0.0; and
    `answer_likelihood`, of weight 0, the mean probability of the answer's tokens; missing without an answer.

    It judges complete groups and needs the `success` of another reward. A group with an episode without token ids (from
    a script or an API) has neither component.

    Args:
        reference: scores the tokens; None for a copy of the playing policy, which is updated during training.
        decay: weight of the copy in each update, 0 to 1. every: training steps between updates.
        most: a token's probability is cut to this value. margin: how far below the mean a likelihood may be and still
            get the bonus.
        tool, argument: the final tool and its argument with the answer; tool is None if the answer is plain text.
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
                f"{decay, every, most, margin} are not valid for decay, every, most, margin: expected 0 <= decay <= "
                "1, every >= 1, 0 < most <= 1, margin >= 0."
            )
        self.reference, self.decay, self.every = reference, decay, every
        self.most, self.margin, self.tool, self.argument = most, margin, tool, argument
        self._source_model: Any = None  # the model whose weights the copy averages
        self._steps = 0

    def bind_policy(self, policy: Policy) -> None:
        """Copy the policy's model. A policy without a model in this process is used directly."""
        if self.reference is not None:
            return
        model = getattr(policy, "model", None)
        if model is None or not hasattr(model, "parameters"):
            self.reference = policy
            return
        from agentgym.policy import TransformersPolicy

        copied_model = copy.deepcopy(model).eval().requires_grad_(False)
        self._source_model = model
        self.reference = TransformersPolicy(copied_model, policy.renderer)  # type: ignore[arg-type]

    def set_progress(self, progress: float) -> None:
        """Update the copy of the policy after every `every` training steps."""
        self._steps += 1
        if self._source_model is None or (self._steps - 1) % self.every or self._steps == 1:
            return
        reference: Any = self.reference
        for averaged, current in zip(reference.model.parameters(), self._source_model.parameters(), strict=True):
            averaged.data.lerp_(current.data, 1.0 - self.decay)

    async def group(self, episodes: Sequence[Trajectory]) -> list[Components]:
        """Judge the episodes of a group.

        Raises: JudgeError if no reward judged `success` or no policy can score; PolicyError if the policy fails.
        """
        if not all(map(has_tokens, episodes)):
            return [{} for _ in episodes]
        wins = [succeeded(episode, "answer_consistency") for episode in episodes]
        likelihoods = [await self._likelihood(episode) for episode in episodes]
        right = [value for value, won in zip(likelihoods, wins, strict=True) if value is not None and won]
        threshold = sum(right) / len(right) - self.margin if right else math.inf
        components: list[Components] = []
        for value, won in zip(likelihoods, wins, strict=True):
            if value is None:
                components.append({"consistency": 0.0})
            else:
                components.append({"consistency": float(won and value >= threshold), "answer_likelihood": value})
        return components

    async def _likelihood(self, episode: Trajectory) -> float | None:
        """Return the mean probability of the answer's tokens after the reasoning, each at most `most`; None without an
        answer.
        """
        renderer = renderer_of(self.reference, "answer_consistency")
        assert self.reference is not None
        answer = final_answer(episode, self.argument)
        if answer is None:
            return None
        ids = renderer.encode(answer_message(answer, self.tool, self.argument))
        values = await probabilities(self.reference, before_answer(episode, ids), ids)
        return sum(min(value, self.most) for value in values) / len(values)
