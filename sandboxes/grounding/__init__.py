"""Understanding screens: pointing at things (`agentgym/ground-v1`), naming actions (`agentgym/transition-v1`)."""

from .environment import Ground
from .transition import Transition

__all__ = ["Ground", "Transition"]
