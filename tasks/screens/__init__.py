"""Generated screens whose every box is known: pointing at what a sentence names, and telling what an action was."""

from .task_set import task_set
from .transitions import task_set as transitions

__all__ = ["task_set", "transitions"]
