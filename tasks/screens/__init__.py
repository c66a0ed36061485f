"""Generated screens with known boxes: `gui/screens-v1` (point at an element), `gui/transitions-v1` (name an action)."""

from .task_set import task_set
from .transitions import task_set as transitions

__all__ = ["task_set", "transitions"]
