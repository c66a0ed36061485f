"""Gymnasium in both directions: its environments as ours, and ours as its.

environment.py   `register_gymnasium`, `gymnasium_tasks`
toy_text.py      the environments of Gymnasium's toy-text in words
text_env.py      TextEnv: our tasks, whose actions and observations are texts
any_text.py      the space of these texts
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.moved import lazy_names

if TYPE_CHECKING:
    from .environment import gymnasium_tasks, register_gymnasium
    from .text_env import TextEnv

__all__ = ["TextEnv", "gymnasium_tasks", "register_gymnasium"]

__getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "environment") | {"TextEnv": "text_env"})
