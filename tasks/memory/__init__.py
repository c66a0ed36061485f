"""The task sets `memory/people-v1` and `memory/short-v1`: what people say over several sessions. See CARD.md."""

from .short import task_set_short
from .task_set import task_set

__all__ = ["task_set", "task_set_short"]
