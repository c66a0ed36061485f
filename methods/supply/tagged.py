"""Train only on tasks with one tag, while imitation and validation use all of the recipe's tasks."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym import Task, TaskError
from agentgym.training.samplers import Shuffled


class Tagged(Shuffled):
    """Draws the tasks that carry a tag, shuffled anew whenever all of them have been drawn.

    Args:
        tasks: to draw from.
        seed: seed of the shuffling.
        tag: the tag that a task must carry.
    Raises: TaskError if no task carries it.
    """

    def __init__(self, tasks: Sequence[Task], seed: int = 0, *, tag: str) -> None:
        tagged = [task for task in tasks if tag in task.tags]
        if not tagged:
            known = sorted({tag for task in tasks for tag in task.tags})
            raise TaskError(
                f"train.sampler: no training task has the tag {tag}. The tags are: {', '.join(known) or 'none'}."
            )
        super().__init__("tagged", tagged, seed)
