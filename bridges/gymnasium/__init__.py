"""Gymnasium's environments as ours. `agentgym.interop.TextEnv` does the reverse.

environment.py   `register_gymnasium`, `gymnasium_tasks`
toy_text.py      the environments of Gymnasium's toy-text in words
"""

from .environment import gymnasium_tasks, register_gymnasium

__all__ = ["gymnasium_tasks", "register_gymnasium"]
