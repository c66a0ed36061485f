"""The task set `code/chores-v1`: sessions of small changes to files. See CARD.md."""

from .task_set import task_set

__all__ = ["task_set"]
