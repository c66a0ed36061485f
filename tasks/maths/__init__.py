"""The task set `code/maths-v1`: problems with one exact answer, for an agent that may compute. See CARD.md."""

from .task_set import oracle, task_set

__all__ = ["oracle", "task_set"]
