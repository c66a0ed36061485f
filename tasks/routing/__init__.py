"""The task set `routing/experts-v1`: which model to ask at which price. See CARD.md."""

from .task_set import task_set

__all__ = ["task_set"]
