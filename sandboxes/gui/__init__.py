"""Graphical worlds. `agentgym/web-v1`: real Chromium inside a sandbox, on pages of its own."""

from .browsers import close_browsers
from .environment import Web, WebForm
from .judge import WebReward

__all__ = ["Web", "WebForm", "WebReward", "close_browsers"]
