"""The kinds of training tasks that a run fails at.

history.py    the results of each task by visit, `histories`; which tasks and kinds are weak
command.py    `agentgym tasks weak`
"""

from .history import TaskHistory, WeakKind, histories, weak_kinds

__all__ = ["TaskHistory", "WeakKind", "histories", "weak_kinds"]
