"""Tasks and task sets: plain frozen data, named splits, a fingerprint, and a guard on the held-out split.

definition.py  Task, as JSON data too; Origin; and seeds that no two tasks share
task_set.py    TaskSet, and the guard
mixture.py     several task sets as one
"""

from agentgym.moved import moved_names
from agentgym.task.definition import Origin
from agentgym.task.mixture import mixed

__all__ = ["Origin", "mixed"]


__getattr__ = moved_names(__name__)
