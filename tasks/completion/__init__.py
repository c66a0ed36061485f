"""The task set `code/completion-v1`: the missing end of a function. See CARD.md."""

from .task_set import oracle, task_set

__all__ = ["oracle", "task_set"]
