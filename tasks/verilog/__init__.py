"""The task set `code/verilog-v1`: small hardware modules, judged by testbenches. See CARD.md."""

from .task_set import oracle, task_set

__all__ = ["oracle", "task_set"]
