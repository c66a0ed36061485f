"""Web environments: `agentgym/web-v1` and `agentgym/web-form-v1` run Chromium and its pages inside a sandbox."""

from .browsers import close_browsers
from .environment import Web, WebForm
from .judge import WebReward

__all__ = ["Web", "WebForm", "WebReward", "close_browsers"]
