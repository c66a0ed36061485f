"""Moved to `agentgym.rollout.manager`; this path works until 0.3.0."""

from agentgym.deprecation import moved_module

__getattr__ = moved_module(__name__, "agentgym.rollout.manager")
