"""Gymnasium's environments as ours. `agentgym.interop.TextEnv` does the reverse.

environment.py   `register_gymnasium`, `gymnasium_tasks`
toy_text.py      the environments of Gymnasium's toy-text in words
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.moved import lazy_names

if TYPE_CHECKING:
    from .environment import gymnasium_tasks, register_gymnasium

__all__ = ["gymnasium_tasks", "register_gymnasium"]

__getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "environment"))
