"""Environments of verifiers as ours, and our task sets for users of verifiers.

environment.py      theirs as ours              worker_process.py   the process that runs them, seen from ours
worker.py           that process; imports verifiers, and nothing of ours
taskset.py          ours as theirs: the names that begin with Agentgym, which programs use that have verifiers

The names that begin with Agentgym are loaded when first used: importing this package needs no verifiers.
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
