"""Environments of verifiers as ours, and our task sets for users of verifiers.

environment.py      theirs as ours              worker_process.py   the process that runs them, seen from ours
worker.py           that process; imports verifiers, and nothing of ours
taskset.py          ours as theirs: the names that begin with Agentgym, which programs use that have verifiers

The names below are loaded when first used: importing this package needs no verifiers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym._imports import lazy_names

if TYPE_CHECKING:
    from agentgym.interop.verifiers.environment import VerifiersEnvironment, register_verifiers, verifiers_tasks
    from agentgym.interop.verifiers.taskset import AgentgymEnv, AgentgymHarness, AgentgymTaskset

_HOME = {
    "AgentgymEnv": "taskset",
    "AgentgymHarness": "taskset",
    "AgentgymTaskset": "taskset",
    "VerifiersEnvironment": "environment",
    "register_verifiers": "environment",
    "verifiers_tasks": "environment",
}

__all__ = [
    "AgentgymEnv",
    "AgentgymHarness",
    "AgentgymTaskset",
    "VerifiersEnvironment",
    "register_verifiers",
    "verifiers_tasks",
]


__getattr__ = lazy_names(__name__, _HOME)
