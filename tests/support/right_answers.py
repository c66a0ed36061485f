"""A reward for the right answer."""

from __future__ import annotations

from agentgym import Reward, Trajectory


class Right(Reward):
    """1 where the answer is the task's."""

    def outcome(self, episode: Trajectory):
        return {"success": float(episode.turns[-1].calls[0].arguments["answer"] == episode.task.truth)}
