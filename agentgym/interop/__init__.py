"""Bridges: environments of Gymnasium, MCP, OpenEnv and verifiers as ours, ours as theirs, and programs as agents.

The names below are loaded when first used: importing this package needs no Gymnasium.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym._imports import lazy_names

if TYPE_CHECKING:
    from agentgym.interop.gateway import AgentProgram, PolicyGateway
    from agentgym.interop.gymnasium import (
        GymnasiumEnvironment,
        GymnasiumEpisode,
        gymnasium_tasks,
        register_gymnasium,
    )
    from agentgym.interop.mcp import McpEnvironment, McpServer, register_mcp
    from agentgym.interop.openenv import OpenEnvEnvironment, openenv_tasks, register_openenv
    from agentgym.interop.text_env import TextEnv
    from agentgym.interop.toy_text import ActionText
    from agentgym.interop.trl_environments import TrlEnvironments
    from agentgym.interop.verifiers import VerifiersEnvironment, register_verifiers, verifiers_tasks

_HOME = {
    "ActionText": "toy_text",
    "AgentProgram": "gateway",
    "GymnasiumEnvironment": "gymnasium",
    "GymnasiumEpisode": "gymnasium",
    "McpEnvironment": "mcp",
    "McpServer": "mcp",
    "OpenEnvEnvironment": "openenv",
    "PolicyGateway": "gateway",
    "TextEnv": "text_env",
    "TrlEnvironments": "trl_environments",
    "VerifiersEnvironment": "verifiers",
    "gymnasium_tasks": "gymnasium",
    "openenv_tasks": "openenv",
    "register_gymnasium": "gymnasium",
    "register_mcp": "mcp",
    "register_openenv": "openenv",
    "register_verifiers": "verifiers",
    "verifiers_tasks": "verifiers",
}

__all__ = [
    "ActionText",
    "AgentProgram",
    "GymnasiumEnvironment",
    "GymnasiumEpisode",
    "McpEnvironment",
    "McpServer",
    "OpenEnvEnvironment",
    "PolicyGateway",
    "TextEnv",
    "TrlEnvironments",
    "VerifiersEnvironment",
    "gymnasium_tasks",
    "openenv_tasks",
    "register_gymnasium",
    "register_mcp",
    "register_openenv",
    "register_verifiers",
    "verifiers_tasks",
]


__getattr__ = lazy_names(__name__, _HOME)
