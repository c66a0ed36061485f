"""The task sets `sql/session-v1` and `sql/session-inprocess-v1`: sessions of questions and changes. See CARD.md."""

from .task_set import session, session_inprocess

__all__ = ["session", "session_inprocess"]
