"""The task set `mcp/stockroom-v1`: jobs for the tools of a small MCP server, which is an asset."""

from .task_set import server_source, task_set

__all__ = ["server_source", "task_set"]
