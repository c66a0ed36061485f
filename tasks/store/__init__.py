"""The task set `sql/store-v1` and its database: questions about a store, answered with SQL. See CARD.md."""

from .database import database
from .oracle import imperfect_oracle, oracle
from .task_set import task_set, task_set_v2

__all__ = ["database", "imperfect_oracle", "oracle", "task_set", "task_set_v2"]
