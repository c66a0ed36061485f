"""The task set `swe/one-line-v1`: small repositories with a bug in one line. See CARD.md."""

from .oracle import novice, oracle
from .task_set import given, task_set, with_shell

__all__ = ["given", "novice", "oracle", "task_set", "with_shell"]
