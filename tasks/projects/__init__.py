"""The task set `code/projects-v1`: change a small project of several files. See CARD.md."""

from .task_set import oracle, task_set

__all__ = ["oracle", "task_set"]
