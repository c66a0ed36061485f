"""`agentgym/code-v1`: write a Python function in a sandbox, with tools to run it, test it and submit it."""

from .environment import Code

__all__ = ["Code"]
