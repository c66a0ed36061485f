"""`session`: the share of correctly completed requests that came one at a time."""

from __future__ import annotations

import re
from collections.abc import Mapping

from agentgym import JudgeError, Reward, Trajectory
from agentgym.reward import SUCCESS, Components

VERDICTS = re.compile(r"(?:.*\n)?No more requests\. Verdicts: ([01]+)", re.DOTALL)
"""Matches the result that follows the last request; its last line, which no agent can write, has the verdicts."""


class SessionReward(Reward):
    """Outcome components `success`, 1.0 if every request was done correctly, and `progress`, the share of such
    requests.

    For environments whose requests come one at a time, such as `agentgym/sql-session-v1`. The environment itself
    compares each effect with the task's goal, and puts the verdicts into the result that ends the episode. If a budget
    ended an episode before its last request, `success` is 0.0 and `progress` is the potential before its last turn.
    """

    weights: Mapping[str, float] = {"progress": 0.0}

    def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the task has no requests."""
        requests = episode.task.parameters.get("requests")
        if not isinstance(requests, list | tuple) or not requests:
            raise JudgeError(f"{episode.task.id} has no parameters['requests'], so session has nothing to judge.")
        verdicts = final_verdicts(episode)
        if verdicts is None or len(verdicts) != len(requests):
            return {SUCCESS: 0.0, "progress": (episode.turns[-1].potential if episode.turns else None) or 0.0}
        return {SUCCESS: float("0" not in verdicts), "progress": verdicts.count("1") / len(verdicts)}


def final_verdicts(episode: Trajectory) -> str | None:
    """Return a text with a 1 or 0 for each request; None if a budget ended the episode before the last one."""
    for turn in episode.turns[-1:]:
        for result in turn.results:
            if isinstance(result.content, str) and (match := VERDICTS.fullmatch(result.content)):
                return match[1]
    return None
