"""The task sets `service/desk-v1` and `service/short-v1`: customers with hidden goals. See CARD.md."""

from .records import retail, telecom, travel
from .task_set import task_set, task_set_short

__all__ = ["retail", "task_set", "task_set_short", "telecom", "travel"]
