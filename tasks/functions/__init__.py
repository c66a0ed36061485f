"""The task set `code/functions-v1`: write a function; visible tests help, hidden tests judge. See CARD.md."""

from ..reference_oracle import oracle
from .task_set import task_set

__all__ = ["oracle", "task_set"]
