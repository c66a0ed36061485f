"""The task sets `swe/javascript-v1` and `swe/c-v1`: small libraries with a bug in one place. See CARD.md."""

from .task_set import c, imperfect_oracle, javascript, oracle

__all__ = ["c", "imperfect_oracle", "javascript", "oracle"]
