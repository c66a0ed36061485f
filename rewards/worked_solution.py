"""`worked_solution`: the hints of a training task as what is said of an episode. No component."""

from __future__ import annotations

from agentgym import Reward, Trajectory


class WorkedSolution(Reward):
    """Feedback that is `Task.hints`, the steps of a solution: a critique that is always right, and costs nothing.

    Put it beside the reward that judges: `[reward] also = ["worked_solution"]`. The gatherer `refined` then lets the
    policy answer with the solution in its prompt. Only training tasks have such feedback; of other tasks, and of those
    without hints, it says nothing.
    Source: critiques with the ground truth, Critique-GRPO, Zhang et al. 2025, arXiv:2506.03106; the text is the task's.
    """

    def feedback(self, episode: Trajectory) -> str:
        return "\n".join(episode.task.hints) if episode.task.split == "train" else ""
