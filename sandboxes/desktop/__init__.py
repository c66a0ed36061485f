"""A computer's desktop: `agentgym/desktop-v1`, real programs on a virtual screen inside a sandbox."""

from .environment import Desktop
from .judge import DesktopReward

__all__ = ["Desktop", "DesktopReward"]
