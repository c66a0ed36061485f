"""The task sets `apps/year-v1`, `apps/year-code-v1` and `apps/short-v1`, and their year of records. See CARD.md."""

from .task_set import task_set, task_set_code, task_set_short
from .year import year

__all__ = ["task_set", "task_set_code", "task_set_short", "year"]
