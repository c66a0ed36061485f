"""Inspect (`inspect_ai`): our sandboxes and task sets for its users, and evaluations as its logs.

sandbox.py        our sandboxes as `sandbox="agentgym"`      task.py   our task sets as Inspect tasks, by `play`
conversation.py   converts messages                          log.py    an evaluation as a log that Inspect opens

Inspect finds `play` through the entry-point group `inspect_ai` if Inspect and agentgym are installed in one Python
environment. Names that need Inspect are loaded at first use: `inspect_log` works without it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .log import inspect_log, write_log

if TYPE_CHECKING:
    from .sandbox import InspectSandbox, InspectSandboxConfig
    from .task import play

_HOME = {"InspectSandbox": "sandbox", "InspectSandboxConfig": "sandbox", "play": "task"}
__all__ = ["InspectSandbox", "InspectSandboxConfig", "inspect_log", "play", "write_log"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)
