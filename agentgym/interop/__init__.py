"""Bridges to others: environments of Gymnasium and MCP servers as ours, ours as Gymnasium's, and programs as agents.

The names below are loaded when first used: importing this package needs no Gymnasium.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.lazy import lazy_names

if TYPE_CHECKING:
    from agentgym.interop.gateway import AgentProgram, PolicyGateway
    from agentgym.interop.gymnasium import (
        GymnasiumEnvironment,
        GymnasiumEpisode,
        gymnasium_tasks,
        register_gymnasium,
    )
    from agentgym.interop.mcp import McpEnvironment, McpServer, register_mcp
    from agentgym.interop.text_env import TextEnv
    from agentgym.interop.toy_text import ActionText

_HOME = {
    "ActionText": "toy_text",
    "AgentProgram": "gateway",
    "GymnasiumEnvironment": "gymnasium",
    "GymnasiumEpisode": "gymnasium",
    "McpEnvironment": "mcp",
    "McpServer": "mcp",
    "PolicyGateway": "gateway",
    "TextEnv": "text_env",
    "gymnasium_tasks": "gymnasium",
    "register_gymnasium": "gymnasium",
    "register_mcp": "mcp",
}

__all__ = [
    "ActionText",
    "AgentProgram",
    "GymnasiumEnvironment",
    "GymnasiumEpisode",
    "McpEnvironment",
    "McpServer",
    "PolicyGateway",
    "TextEnv",
    "gymnasium_tasks",
    "register_gymnasium",
    "register_mcp",
]


__getattr__ = lazy_names(__name__, _HOME)
