"""The task set `code/polyglot-v1`: nine hand-made functions, each to be written in six languages. See CARD.md."""

from ..reference_oracle import oracle
from .task_set import task_set

__all__ = ["oracle", "task_set"]
