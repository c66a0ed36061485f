"""Tasks and task sets: plain frozen data, named splits, a fingerprint, and a guard on the held-out split.

definition.py  Task, Origin, and seeds that no two tasks share
json_rows.py   tasks as JSON data
task_set.py    TaskSet, and the guard
mixture.py     several task sets as one
"""

from agentgym.moved import moved_names
from agentgym.task.definition import INSTRUCTIONS, SPLITS, VARIANTS, Origin, pair_of
from agentgym.task.json_rows import task_from_json, task_to_json
from agentgym.task.mixture import mixed, source_of
from agentgym.task.task_set import canary_of, training_only

__all__ = [
    "INSTRUCTIONS",
    "SPLITS",
    "VARIANTS",
    "Origin",
    "canary_of",
    "mixed",
    "pair_of",
    "source_of",
    "task_from_json",
    "task_to_json",
    "training_only",
]


__getattr__ = moved_names(__name__)
