"""Environments of verifiers for our users, and our task sets for users of verifiers.

environment.py      verifiers' environments as ours
worker_process.py   our side of the process that runs them
worker.py           that process; imports verifiers, and nothing of ours
taskset.py          our task sets as verifiers' tasksets: the names that begin with Agentgym

The names that begin with Agentgym are loaded at first use: importing this package does not need verifiers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .environment import VerifiersEnvironment, register_verifiers, verifiers_tasks

if TYPE_CHECKING:
    from .taskset import AgentgymEnv, AgentgymHarness, AgentgymTaskset

__all__ = [
    "AgentgymEnv",
    "AgentgymHarness",
    "AgentgymTaskset",
    "VerifiersEnvironment",
    "register_verifiers",
    "verifiers_tasks",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import taskset

    return getattr(taskset, name)
