"""The task set `code/shell-v1`: put files in order with shell commands. See CARD.md."""

from .task_set import oracle, task_set

__all__ = ["oracle", "task_set"]
