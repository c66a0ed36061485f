"""`bounded_steps`: another reward's step scores, refined so that more steps never mean more reward.

If raw step scores are summed, repeating correct but useless steps is rewarded.
Source: Gao et al. 2024, arXiv:2410.15115, section 4: Clip, min(s_k - eta, 0); Delta, s_k - s_{k+1}, where the last step
keeps its score, so that the steps from k on add up to s_k.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym import JudgeError, Reward, Trajectory, load_reward
from agentgym.reward import Components, validate_components


class BoundedSteps(Reward):
    """Turn component `step`: a turn component of another reward, clipped, or minus its value in the next turn.

    Args:
        reward: scores the steps: a Reward or a registered name. component: its turn component to use; a turn without it
            scores 0.
        mode: `delta` or `clip`. threshold: eta, in units of the component; a step that reaches it is not penalised.
        options: arguments of the reward's constructor.
    """

    def __init__(
        self,
        reward: str | Reward | None = None,
        component: str = "",
        mode: str = "delta",
        threshold: float = 0.5,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        if mode not in ("delta", "clip"):
            raise ValueError(f"mode = {mode!r} is not valid: choose delta or clip.")
        self.inner = load_reward(reward, **(options or {})) if isinstance(reward, str) else reward
        self.component, self.mode, self.threshold = component, mode, threshold

    async def hindsight(self, episode: Trajectory) -> list[Components]:
        """Judge the turns of a finished episode.

        Raises: JudgeError without a reward and a component, or if the reward cannot score.
        """
        if self.inner is None or not self.component:
            raise JudgeError("bounded_steps needs two options: `reward`, which scores the steps, and `component`.")
        scores = []
        for turn in episode.turns:
            components = await validate_components(self.inner.turn(turn, episode), self.inner)
            scores.append(components.get(self.component, 0.0))
        refined = deltas(scores) if self.mode == "delta" else clipped(scores, self.threshold)
        return [{"step": value} for value in refined]

    def set_progress(self, progress: float) -> None:
        if self.inner is not None:
            self.inner.set_progress(progress)

    def bind_policy(self, policy: Any) -> None:
        if self.inner is not None:
            self.inner.bind_policy(policy)


def clipped(scores: list[float], threshold: float) -> list[float]:
    """Return how far each score is below the threshold, as a number of at most 0."""
    return [min(score - threshold, 0.0) for score in scores]


def deltas(scores: list[float]) -> list[float]:
    """Return each score minus the next one: from any step on, they add up to that step's score."""
    return [score - after for score, after in zip(scores, [*scores[1:], 0.0], strict=True)]
