"""The task sets `apps/year-v1`, `apps/year-code-v1`, `apps/short-v1` and `apps/team-v1`, and their year of records."""

from .task_set import task_set, task_set_code, task_set_short, task_set_team
from .year import year

__all__ = ["task_set", "task_set_code", "task_set_short", "task_set_team", "year"]
