"""The task set `service/desk-v1`: customers with hidden goals in retail, travel and telecom. See CARD.md."""

from .records import retail, telecom, travel
from .task_set import task_set

__all__ = ["retail", "task_set", "telecom", "travel"]
