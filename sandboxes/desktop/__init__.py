"""A computer's desktop: `agentgym/desktop-v1` and `desktop-v2`, real programs on a virtual screen inside a sandbox."""

from .environment import Desktop
from .judge import DesktopReward
from .own_programs import DesktopPrograms

__all__ = ["Desktop", "DesktopPrograms", "DesktopReward"]
