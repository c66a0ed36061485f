"""`overlong` and `brevity`: rewards for the length of an episode, in tokens of the agent's own messages.

An episode without token counts (from a policy without token ids or usage) has no component; missing is not 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentgym import Reward, Trajectory
from agentgym.reward import Components

from .needed_success import succeeded


class Overlong(Reward):
    """Outcome component `overlong`: 0 up to limit - margin tokens, falling to -1 at the limit, and -1 above it.

    Source: soft overlong punishment, DAPO, Yu et al. 2025, arXiv:2503.14476, equation 13.

    Args:
        limit: L_max, in tokens of all the agent's messages together. margin: L_cache, the range of increasing penalty.
    """

    def __init__(self, limit: int = 1024, margin: int = 256) -> None:
        if not 0 < margin <= limit:
            raise ValueError(
                f"margin = {margin} and limit = {limit} are not valid: overlong needs 0 < margin <= limit."
            )
        self.limit, self.margin = limit, margin

    def outcome(self, episode: Trajectory) -> Components:
        tokens = tokens_of(episode)
        if tokens is None:
            return {}
        return {"overlong": -min(max((tokens - (self.limit - self.margin)) / self.margin, 0.0), 1.0)}


class Brevity(Reward):
    """Outcome component `brevity`, -0.5 to 0.5: within a group, shorter right answers are better.

    A wrong answer never gains by being short. If all lengths are equal it is 0. It needs the `success` of another
    reward.
    Source: length reward, Kimi k1.5, arXiv:2501.12599, section 2.3.3.
    """

    weights: Mapping[str, float] = {"brevity": 0.2}

    def group(self, episodes: Sequence[Trajectory]) -> list[Components]:
        """Judge the episodes of a group. Raises: JudgeError if no reward judged `success`."""
        right = [succeeded(episode, "brevity") for episode in episodes]
        lengths = [tokens_of(episode) for episode in episodes]
        known = [length for length in lengths if length is not None]
        if len(known) < len(lengths):
            return [{} for _ in episodes]
        shortest, span = min(known), max(known) - min(known)
        components: list[Components] = []
        for won, length in zip(right, known, strict=True):
            value = 0.5 - (length - shortest) / span if span else 0.0
            components.append({"brevity": value if won else min(value, 0.0)})
        return components


def tokens_of(episode: Trajectory) -> int | None:
    """Return the tokens that the agent wrote in all turns; None if a turn has no count."""
    total = 0
    for turn in episode.turns:
        counted = len(turn.token_ids) or int(turn.usage.get("completion_tokens", 0))
        if not counted:
            return None
        total += counted
    return total
