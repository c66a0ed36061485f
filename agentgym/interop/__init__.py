"""Our episodes over MCP, environments as text for Gymnasium, and external programs as agents.

`agentgym.bridges` exchanges with other systems.

The names below are loaded when first used: importing this package needs no Gymnasium.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.moved import lazy_names

if TYPE_CHECKING:
    from agentgym.interop import mcp
    from agentgym.interop.ascii_json import AsciiJSONResponse
    from agentgym.interop.gateway.gateway import PolicyGateway
    from agentgym.interop.offered_episode import OfferedEpisode
    from agentgym.interop.text_env import TextEnv

_HOME = {
    "AsciiJSONResponse": "ascii_json",
    "OfferedEpisode": "offered_episode",
    "PolicyGateway": "gateway",
    "TextEnv": "text_env",
}

__all__ = [
    "AsciiJSONResponse",
    "OfferedEpisode",
    "PolicyGateway",
    "TextEnv",
    "mcp",
]


__getattr__ = lazy_names(__name__, _HOME)
