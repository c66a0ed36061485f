"""Moved to `agentgym.rollout.budgets`; this path works until 0.3.0."""

from agentgym.deprecation import moved_module

__getattr__ = moved_module(__name__, "agentgym.rollout.budgets")
