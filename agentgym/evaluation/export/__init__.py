"""Evaluations and episodes in the formats of other tools: Inspect's logs, and Parquet as `datasets` reads it."""

from agentgym.evaluation.export.inspect_log import inspect_log
from agentgym.evaluation.export.parquet import row_of_episode, write_parquet

__all__ = ["inspect_log", "row_of_episode", "write_parquet"]
