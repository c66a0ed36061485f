"""Web environments (`agentgym/web-v2`, `web-v1`, `web-form-v1`, `web-wizard-v1`): pages in Chromium, in a sandbox."""

from .browsers import close_browsers
from .browsing import WebBrowser
from .environment import Web, WebForm
from .judge import WebReward
from .wizard import WebStepsReward, WebWizard

__all__ = ["Web", "WebBrowser", "WebForm", "WebReward", "WebStepsReward", "WebWizard", "close_browsers"]
