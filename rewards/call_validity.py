"""`call_validity`: whether the agent's calls could be run. It does not judge whether they helped.

Source: format rewards as in ToolRL (Qian et al. 2025, arXiv:2504.13958, section 3.3) and MT-GRPO's executed-tool reward
(Zeng et al. 2025, arXiv:2505.11821), given per call instead of per message.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentgym import ResultStatus, Reward, Trajectory, Turn
from agentgym.reward import Components

BADLY_WRITTEN = frozenset({ResultStatus.MALFORMED, ResultStatus.UNKNOWN_TOOL, ResultStatus.WRONG_ARGUMENTS})


class CallValidity(Reward):
    """Turn component `valid_calls`, the share of the turn's calls that could be run; outcome `format`, 1.0 or 0.0.

    A turn without calls has no `valid_calls`. `format` is 1.0 if the episode has a call and every call was well formed.
    A call is malformed if it is unreadable, names an unknown tool or has wrong arguments; a call that the tool refuses
    is well formed. Both weights are small, and making more calls cannot raise either component.
    """

    weights: Mapping[str, float] = {"valid_calls": 0.05, "format": 0.1}

    def turn(self, turn: Turn, episode: Trajectory) -> Components:
        if not turn.calls:
            return {}
        bad = sum(result.status in BADLY_WRITTEN for result in turn.results)
        bad += max(len(turn.calls) - len(turn.results), 0)  # a call without a result never ran
        return {"valid_calls": 1.0 - bad / max(len(turn.calls), len(turn.results))}

    def outcome(self, episode: Trajectory) -> Components:
        results = [result for turn in episode.turns for result in turn.results]
        return {"format": float(bool(results) and not any(result.status in BADLY_WRITTEN for result in results))}
