"""The task set `code/verified-v1`: write a function, and tests that distinguish it from wrong ones. See CARD.md."""

from .task_set import oracle, task_set

__all__ = ["oracle", "task_set"]
