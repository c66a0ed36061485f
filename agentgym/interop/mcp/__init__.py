"""MCP, the Model Context Protocol: MCP servers' tools as environments, and our episodes as MCP servers.

server.py            starting or reaching a server, and the connection to it
guest_bridge.py      the client that runs beside the server in its sandbox; guest_transports.py, what it speaks over
environment.py       McpEnvironment, `register_mcp`
content.py           what a tool returned, as content of a message
tool_server.py       tools of ours behind the protocol
episode_server.py    an episode of ours whose policy is the client that calls the tools; stdio.py, on standard streams
"""

from agentgym.moved import moved_names

from .content import content_from_mcp as content_from_mcp
from .content import content_to_mcp as content_to_mcp
from .content import result_to_mcp as result_to_mcp
from .environment import McpEnvironment as McpEnvironment  # the name that an entry point has

__getattr__ = moved_names(__name__)
