"""The task set `search/wiki-v1` and its corpora: questions over generated wikis. See CARD.md."""

from .oracle import novice, oracle
from .task_set import retrieve_task_set, task_set
from .world import wiki

__all__ = ["novice", "oracle", "retrieve_task_set", "task_set", "wiki"]
