"""`tool_efficiency`: a right answer is worth more with fewer calls; a wrong one nothing, however few.

Source: OTC-PO, Wang et al. 2025, arXiv:2504.14870, equations 4 to 7: reward = alpha * r_tool * r_correct.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from agentgym import Reward
from agentgym.reward import SUCCESS, Components, EpisodeView

from .needed_success import succeeded


class ToolEfficiency(Reward):
    """Outcome components `tool_efficiency`, success times r_tool, 0 to 1; and `tool_calls`, how many were made.

    Asked when the group is complete: it needs the `success` that another reward gave. `tool_calls` has weight 0. For
    OTC as published set the weight of `success` to 0, as it is a factor here already.

    Args:
        against: `group` measures against the fewest calls of a right episode of the group (OTC-GRPO); `none` lets
            r_tool fall with the calls alone (OTC-PPO).
        smooth: c, how slowly it falls where no call would have been needed; in calls, above 0.
        tools: names of those that count; None for all but final ones.
    """

    weights: Mapping[str, float] = {"tool_calls": 0.0}

    def __init__(self, against: str = "group", smooth: float = 4.0, tools: Collection[str] | None = None) -> None:
        if against not in ("group", "none") or not smooth > 0:
            raise ValueError(f"against is {against!r} and smooth {smooth!r}: give 'group' or 'none', and more than 0.")
        self.against, self.smooth, self.tools = against, smooth, None if tools is None else frozenset(tools)

    def group(self, episodes: Sequence[EpisodeView]) -> list[Components]:
        """Raises: JudgeError if nobody judged `success`."""
        wins = [succeeded(episode, "tool_efficiency") for episode in episodes]
        calls = [self.calls_of(episode) for episode in episodes]
        right = [made for made, won in zip(calls, wins, strict=True) if won]
        fewest = min(right, default=0) if self.against == "group" else 0
        return [
            {"tool_efficiency": episode.outcome[SUCCESS] * r_tool(made, fewest, self.smooth), "tool_calls": float(made)}
            for made, episode in zip(calls, episodes, strict=True)
        ]

    def calls_of(self, episode: EpisodeView) -> int:
        """How many calls count. One that was badly written counts too: it cost a turn."""
        pairs = [pair for turn in episode.turns for pair in zip(turn.calls, turn.results, strict=False)]
        if self.tools is not None:
            return sum(call.name in self.tools for call, _ in pairs)
        return sum(not result.final for _, result in pairs)


def r_tool(made: int, fewest: int, smooth: float) -> float:
    """The efficiency of `made` calls where `fewest` were enough: 1 at best, falling towards 0.

    Source: OTC-PO, equations 5 and 6; equation 4 is the case of fewest = 0.
    """
    if fewest == 0:
        return 1.0 if made == 0 else math.cos(made * math.pi / (2 * made + smooth))
    mapped = 2 * fewest * made / (made + fewest)
    return math.sin(mapped * math.pi / (2 * fewest))
