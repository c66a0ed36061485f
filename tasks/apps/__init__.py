"""The task sets `apps/year-v1` and `apps/year-code-v1`: tasks over one to four apps, and their year of records."""

from .task_set import task_set, task_set_code
from .year import year

__all__ = ["task_set", "task_set_code", "year"]
