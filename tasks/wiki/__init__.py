"""The task set `search/wiki-v1` and its corpora: questions over generated wikis. See CARD.md."""

from .oracle import imperfect_oracle, oracle
from .task_set import lookup_task_set, retrieve_task_set, task_set
from .world import wiki

__all__ = ["imperfect_oracle", "lookup_task_set", "oracle", "retrieve_task_set", "task_set", "wiki"]
