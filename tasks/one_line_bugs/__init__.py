"""The task set `swe/one-line-v1`: small repositories with a bug in one line. See CARD.md."""

from .oracle import imperfect_oracle, oracle
from .task_set import given, task_set, with_shell

__all__ = ["given", "imperfect_oracle", "oracle", "task_set", "with_shell"]
