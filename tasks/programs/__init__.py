"""The task set `code/programs-v1`: whole programs that read numbers and print, in five languages. See CARD.md."""

from .task_set import oracle, task_set

__all__ = ["oracle", "task_set"]
