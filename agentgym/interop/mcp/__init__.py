"""MCP, the Model Context Protocol: our episodes as MCP servers. `agentgym.bridges.mcp` uses the servers of others.

content.py           what a tool returned, as content of a message, and back
tool_server.py       our tools offered over the protocol
episode_server.py    one of our episodes, whose policy is the client that calls the tools; also on standard streams
http.py              our episodes over HTTP
"""

from agentgym.moved import moved_names

from .content import content_from_mcp as content_from_mcp
from .content import content_to_mcp as content_to_mcp
from .content import result_to_mcp as result_to_mcp
from .content import text_of as text_of
from .tool_server import OVER as OVER

__getattr__ = moved_names(__name__)
