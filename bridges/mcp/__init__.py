"""MCP in both directions: the tools of an MCP server as an environment, and our episodes as MCP servers.

environment.py      McpEnvironment, `register_mcp`
published.py        `mcp://SERVER` and `register_mcp_json`: the servers of a client's mcp.json
add.py              `agentgym mcp add`
server.py           starting or reaching a server, and the connection to it
guest_bridge.py     the client that runs beside the server in its sandbox; guest_transports.py, its transports
episode_server.py   one of our episodes, whose policy is the client that calls the tools; also on standard streams
http.py             our episodes over HTTP
command.py          `agentgym serve mcp` and `agentgym serve mcp-http`
"""

from .environment import McpEnvironment, register_mcp
from .published import register_mcp_json
from .server import McpServer

__all__ = ["McpEnvironment", "McpServer", "register_mcp", "register_mcp_json"]
