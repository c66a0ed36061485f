"""The tools of an MCP server as an environment: `agentgym/mcp-v1` and `register_mcp`.

environment.py      McpEnvironment, `register_mcp`
server.py           starting or reaching a server, and the connection to it
guest_bridge.py     the client that runs beside the server in its sandbox; guest_transports.py, its transports
"""

from .environment import McpEnvironment, register_mcp
from .server import McpServer

__all__ = ["McpEnvironment", "McpServer", "register_mcp"]
