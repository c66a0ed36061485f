"""The task set `code/tables-v1`: questions about data files, answered in a notebook. See CARD.md."""

from .task_set import oracle, task_set

__all__ = ["oracle", "task_set"]
