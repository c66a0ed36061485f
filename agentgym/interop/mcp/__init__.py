"""MCP, the Model Context Protocol: MCP servers' tools as environments, and our episodes as MCP servers.

server.py            starting or reaching a server, and the connection to it
guest_bridge.py      the client that runs beside the server in its sandbox; guest_transports.py, its transports
environment.py       McpEnvironment, `register_mcp`
content.py           what a tool returned, as content of a message
tool_server.py       our tools offered over the protocol
episode_server.py    one of our episodes, whose policy is the client that calls the tools; also on standard streams
"""

from agentgym.moved import moved_names

from .content import content_from_mcp as content_from_mcp
from .content import content_to_mcp as content_to_mcp
from .content import result_to_mcp as result_to_mcp
from .environment import McpEnvironment as McpEnvironment  # named by the entry point

__getattr__ = moved_names(__name__)
