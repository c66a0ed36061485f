"""The task set `code/programs-v1`: whole programs that read numbers and print, in five languages. See CARD.md."""

from ..reference_oracle import oracle
from .task_set import task_set

__all__ = ["oracle", "task_set"]
