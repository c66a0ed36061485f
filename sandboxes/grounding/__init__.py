"""Finding things on a screen: `agentgym/ground-v1` points at one, `agentgym/transition-v1` says what was done to it."""

from .environment import Ground
from .transition import Transition

__all__ = ["Ground", "Transition"]
