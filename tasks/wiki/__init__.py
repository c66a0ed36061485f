"""The task set `search/wiki-v1` and its corpora: questions over generated wikis. See CARD.md."""

from .knowledge_base import wiki
from .oracle import imperfect_oracle, oracle
from .task_set import lookup_task_set, retrieve_task_set, task_set

__all__ = ["imperfect_oracle", "lookup_task_set", "oracle", "retrieve_task_set", "task_set", "wiki"]
