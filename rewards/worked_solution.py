"""`worked_solution`: gives a training task's hints as feedback on an episode. Adds no reward."""

from __future__ import annotations

from agentgym import Reward, Trajectory


class WorkedSolution(Reward):
    """Gives `Task.hints`, the steps of a solution, as feedback: a critique that is always right, and needs no model.

    Use it together with the reward that judges: `[reward] also = ["worked_solution"]`. The gatherer `refined` then lets
    the policy answer with the solution in its prompt. Only training tasks with hints have this feedback; it is empty
    for others.
    Source: critiques with the ground truth, Critique-GRPO, Zhang et al. 2025, arXiv:2506.03106; the text is the task's
        own.
    """

    def feedback(self, episode: Trajectory) -> str:
        return "\n".join(episode.task.hints) if episode.task.split == "train" else ""
