"""`tool_efficiency`: a right answer is worth more with fewer calls; a wrong answer is worth nothing.

Source: OTC-PO, Wang et al. 2025, arXiv:2504.14870, equations 4 to 7: reward = alpha * r_tool * r_correct.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from agentgym import Reward, Trajectory
from agentgym.reward import SUCCESS, Components

from .needed_success import succeeded


class ToolEfficiency(Reward):
    """Outcome components `tool_efficiency`, success times r_tool, 0 to 1; and `tool_calls`, the number of calls.

    It judges complete groups and needs the `success` of another reward. `tool_calls` has weight 0. For OTC as published
    set the weight of `success` to 0, because `tool_efficiency` already contains it as a factor.

    Args:
        against: `group` compares with the fewest calls of any right episode in the group (OTC-GRPO); with `none`,
            r_tool depends only on the episode's own calls (OTC-PPO).
        smooth: c, a number of calls above 0: the larger, the more slowly r_tool falls with each call if no call was
            needed.
        tools: names of the tools that count; None for all but final calls.
    """

    weights: Mapping[str, float] = {"tool_calls": 0.0}

    def __init__(self, against: str = "group", smooth: float = 4.0, tools: Collection[str] | None = None) -> None:
        if against not in ("group", "none") or not smooth > 0:
            raise ValueError(
                f"against = {against!r} and smooth = {smooth!r} are not valid: against must be 'group' or 'none', and "
                "smooth above 0."
            )
        self.against, self.smooth, self.tools = against, smooth, None if tools is None else frozenset(tools)

    def group(self, episodes: Sequence[Trajectory]) -> list[Components]:
        """Judge the episodes of a group. Raises: JudgeError if no reward judged `success`."""
        wins = [succeeded(episode, "tool_efficiency") for episode in episodes]
        counts = [self.calls_of(episode) for episode in episodes]
        right = [count for count, won in zip(counts, wins, strict=True) if won]
        fewest = min(right, default=0) if self.against == "group" else 0
        return [
            {
                "tool_efficiency": episode.outcome[SUCCESS] * r_tool(count, fewest, self.smooth),
                "tool_calls": float(count),
            }
            for count, episode in zip(counts, episodes, strict=True)
        ]

    def calls_of(self, episode: Trajectory) -> int:
        """Return the number of calls that count. Malformed calls count too, because they cost a turn."""
        pairs = [pair for turn in episode.turns for pair in zip(turn.calls, turn.results, strict=False)]
        if self.tools is not None:
            return sum(call.name in self.tools for call, _ in pairs)
        return sum(not result.final for _, result in pairs)


def r_tool(calls: int, fewest: int, smooth: float) -> float:
    """Return the efficiency of a number of calls if `fewest` were enough: 1 at best, falling towards 0.

    Source: OTC-PO, equations 5 and 6; equation 4 is the case of fewest = 0.
    """
    if fewest == 0:
        return 1.0 if calls == 0 else math.cos(calls * math.pi / (2 * calls + smooth))
    mapped = 2 * fewest * calls / (calls + fewest)
    return math.sin(mapped * math.pi / (2 * fewest))
