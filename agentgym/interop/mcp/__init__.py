"""MCP, the Model Context Protocol, as far as several servers need it; `agentgym.bridges.mcp` is the rest.

content.py           what a tool returned, as content of a message, and back
tool_server.py       tools of ours offered over the protocol
"""

from typing import TYPE_CHECKING

from agentgym.cluster.served_episodes import ServerRefusal as ServerRefusal
from agentgym.cluster.serving import is_loopback as is_loopback
from agentgym.cluster.tokens import token_position as token_position
from agentgym.moved import lazy_names

from .content import content_from_mcp as content_from_mcp
from .content import content_to_mcp as content_to_mcp
from .content import result_to_mcp as result_to_mcp
from .content import text_of as text_of
from .tool_server import OVER as OVER
from .tool_server import ToolServer as ToolServer

if TYPE_CHECKING:
    from agentgym.interop.ascii_json import AsciiJSONResponse as AsciiJSONResponse

__getattr__ = lazy_names(__name__, {"AsciiJSONResponse": ".ascii_json"})  # it needs starlette
