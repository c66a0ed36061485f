"""The task set `code/verilog-v1`: small hardware modules, judged by testbenches. See CARD.md."""

from ..reference_oracle import oracle
from .task_set import task_set

__all__ = ["oracle", "task_set"]
