"""The task set `code/programs-v1`: write a whole program that reads numbers and prints, in five languages. See CARD.md."""

from .task_set import oracle, task_set

__all__ = ["oracle", "task_set"]
