"""External programs as agents: the gateway that answers them like a model's API, and episodes that a program plays.

`agentgym.bridges` exchanges with other systems. The names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.moved import lazy_names

if TYPE_CHECKING:
    from agentgym.interop import mcp
    from agentgym.interop.gateway.gateway import PolicyGateway
    from agentgym.interop.offered_episode import OfferedEpisode

_HOME = {
    "OfferedEpisode": "offered_episode",
    "PolicyGateway": "gateway",
}

__all__ = [
    "OfferedEpisode",
    "PolicyGateway",
    "mcp",
]


__getattr__ = lazy_names(__name__, _HOME)
