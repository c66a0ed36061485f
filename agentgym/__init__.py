"""agentgym: the gym in which any LLM agent learns any tool.

    import agentgym
    env = agentgym.make("agentgym/sql-v1")

The names below are loaded when first used: importing agentgym is quick, and reads and prints nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentgym.environment import Checkpoint, Environment
    from agentgym.errors import AgentGymError, JudgeError, ToolError
    from agentgym.messages import Call, ImagePart, Message, Result, StopReason, TextPart
    from agentgym.registry import load_reward, load_task_set, make, register
    from agentgym.reward import Combined, Gate, Reward, Schedule
    from agentgym.sandbox import SandboxSpec
    from agentgym.task import Task, TaskSet
    from agentgym.tools import Tool, tool

_HOME = {
    "environment": ("Checkpoint", "Environment"),
    "errors": ("AgentGymError", "JudgeError", "ToolError"),
    "messages": ("Call", "ImagePart", "Message", "Result", "StopReason", "TextPart"),
    "registry": ("load_reward", "load_task_set", "make", "register"),
    "reward": ("Combined", "Gate", "Reward", "Schedule"),
    "sandbox": ("SandboxSpec",),
    "task": ("Task", "TaskSet"),
    "tools": ("Tool", "tool"),  # `agentgym.tool` is the decorator, so its module cannot have that name
}
_WHERE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "AgentGymError", "Call", "Checkpoint", "Combined", "Environment", "Gate", "ImagePart", "JudgeError",
    "Message", "Result", "Reward", "SandboxSpec", "Schedule", "StopReason", "Task", "TaskSet", "TextPart", "Tool",
    "ToolError", "load_reward", "load_task_set", "make", "register", "tool",
]  # fmt: skip
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'agentgym' has no attribute {name!r}")
    value = getattr(import_module(f"agentgym.{_WHERE[name]}"), name)
    globals()[name] = value
    return value
