"""Web environments: `agentgym/web-v1`, `web-form-v1` and `web-wizard-v1` run Chromium and its pages in a sandbox."""

from .browsers import close_browsers
from .environment import Web, WebForm
from .judge import WebReward
from .wizard import WebStepsReward, WebWizard

__all__ = ["Web", "WebForm", "WebReward", "WebStepsReward", "WebWizard", "close_browsers"]
