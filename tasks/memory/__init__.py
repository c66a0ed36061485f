"""The task set `memory/people-v1`: what people say of themselves over several sessions. See CARD.md."""

from .task_set import task_set

__all__ = ["task_set"]
