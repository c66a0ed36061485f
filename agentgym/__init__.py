"""agentgym: the gym in which any LLM agent learns any tool.

    import agentgym
    env = agentgym.make("agentgym/sql-v1")

The names below are loaded when first used: importing agentgym is quick, and reads and prints nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from agentgym.moved import MovedPackages, lazy_names

if TYPE_CHECKING:
    from agentgym._imports import install_command
    from agentgym.environment.contract import Environment
    from agentgym.environment.guest_module import GuestModule, GuestObject, GuestStopped
    from agentgym.environment.state import Checkpoint, ObservedState, Outlook
    from agentgym.environment.workspace import Workspace
    from agentgym.errors import (
        AgentGymError,
        ConformanceError,
        ContextFull,
        CreditError,
        EnvironmentServerError,
        EpisodesFailed,
        EvaluationError,
        FilesNotCaptured,
        HeldOutError,
        JudgeError,
        LedgerError,
        LimitUnenforceable,
        MissingExtraError,
        MissingSignalError,
        PolicyError,
        PolicyLeft,
        RecipeError,
        RewardError,
        SandboxDied,
        SandboxError,
        SandboxExhausted,
        SandboxUnavailable,
        ScriptEnded,
        SearchError,
        ServerUnreachable,
        TaskError,
        ToolDefinitionError,
        ToolError,
        UnknownNameError,
    )
    from agentgym.evaluation.comparison import compare
    from agentgym.evaluation.runner import evaluate
    from agentgym.messages import Call, Content, ImagePart, Message, Part, Result, ResultStatus, StopReason, TextPart
    from agentgym.policy.contract import Policy
    from agentgym.policy.scripted import ScriptedPolicy
    from agentgym.registry import (
        BackendUser,
        close_backends,
        load,
        load_reward,
        load_task_set,
        make,
        names,
        prototype,
        register,
        shared_backend,
        task_set_for,
    )
    from agentgym.reward.combined import Combined, Gate, Schedule
    from agentgym.reward.contract import Reward
    from agentgym.reward.functions import reward_function
    from agentgym.rollout.budgets import Budgets
    from agentgym.rollout.config import RolloutConfig
    from agentgym.rollout.manager import EpisodeManager
    from agentgym.sandbox.limits import SandboxSpec
    from agentgym.task.definition import Split, Task, seed_of
    from agentgym.task.task_set import TaskSet
    from agentgym.threads import in_thread
    from agentgym.tools.definition import Tool, tool
    from agentgym.trajectory.record import Trajectory
    from agentgym.trajectory.turn import Turn

_HOME = {
    "_imports": ("install_command",),
    "environment.contract": ("Environment",),
    "environment.guest_module": (
        "GuestModule",
        "GuestObject",
        "GuestStopped",
    ),
    "environment.state": (
        "Checkpoint",
        "ObservedState",
        "Outlook",
    ),
    "environment.workspace": ("Workspace",),
    "errors": (
        "AgentGymError",
        "ConformanceError",
        "ContextFull",
        "CreditError",
        "EnvironmentServerError",
        "EpisodesFailed",
        "EvaluationError",
        "FilesNotCaptured",
        "HeldOutError",
        "JudgeError",
        "LedgerError",
        "LimitUnenforceable",
        "MissingExtraError",
        "MissingSignalError",
        "PolicyError",
        "PolicyLeft",
        "RecipeError",
        "RewardError",
        "SandboxDied",
        "SandboxError",
        "SandboxExhausted",
        "SandboxUnavailable",
        "ScriptEnded",
        "SearchError",
        "ServerUnreachable",
        "TaskError",
        "ToolDefinitionError",
        "ToolError",
        "UnknownNameError",
    ),
    "evaluation.comparison": ("compare",),
    "evaluation.runner": ("evaluate",),
    "messages": (
        "Call",
        "Content",
        "ImagePart",
        "Message",
        "Part",
        "Result",
        "ResultStatus",
        "StopReason",
        "TextPart",
    ),
    "policy.contract": ("Policy",),
    "policy.scripted": ("ScriptedPolicy",),
    "registry": (
        "BackendUser",
        "close_backends",
        "load",
        "load_reward",
        "load_task_set",
        "make",
        "names",
        "prototype",
        "register",
        "shared_backend",
        "task_set_for",
    ),
    "reward.combined": (
        "Combined",
        "Gate",
        "Schedule",
    ),
    "reward.contract": ("Reward",),
    "reward.functions": ("reward_function",),
    "rollout.budgets": ("Budgets",),
    "rollout.config": ("RolloutConfig",),
    "rollout.manager": ("EpisodeManager",),
    "sandbox.limits": ("SandboxSpec",),
    "task.definition": (
        "Split",
        "Task",
        "seed_of",
    ),
    "task.task_set": ("TaskSet",),
    "threads": ("in_thread",),
    "tools.definition": (
        "Tool",
        "tool",
    ),
    "trajectory.record": ("Trajectory",),
    "trajectory.turn": ("Turn",),
}
_WHERE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "AgentGymError",
    "BackendUser",
    "Budgets",
    "Call",
    "Checkpoint",
    "Combined",
    "ConformanceError",
    "Content",
    "ContextFull",
    "CreditError",
    "Environment",
    "EnvironmentServerError",
    "EpisodeManager",
    "EpisodesFailed",
    "EvaluationError",
    "FilesNotCaptured",
    "Gate",
    "GuestModule",
    "GuestObject",
    "GuestStopped",
    "HeldOutError",
    "ImagePart",
    "JudgeError",
    "LedgerError",
    "LimitUnenforceable",
    "Message",
    "MissingExtraError",
    "MissingSignalError",
    "ObservedState",
    "Outlook",
    "Part",
    "Policy",
    "PolicyError",
    "PolicyLeft",
    "RecipeError",
    "Result",
    "ResultStatus",
    "Reward",
    "RewardError",
    "RolloutConfig",
    "SandboxDied",
    "SandboxError",
    "SandboxExhausted",
    "SandboxSpec",
    "SandboxUnavailable",
    "Schedule",
    "ScriptEnded",
    "ScriptedPolicy",
    "SearchError",
    "ServerUnreachable",
    "Split",
    "StopReason",
    "Task",
    "TaskError",
    "TaskSet",
    "TextPart",
    "Tool",
    "ToolDefinitionError",
    "ToolError",
    "Trajectory",
    "Turn",
    "UnknownNameError",
    "Workspace",
    "close_backends",
    "compare",
    "evaluate",
    "in_thread",
    "install_command",
    "load",
    "load_reward",
    "load_task_set",
    "make",
    "names",
    "prototype",
    "register",
    "reward_function",
    "seed_of",
    "shared_backend",
    "task_set_for",
    "thoughts",
    "tool",
]
__version__ = "0.3.0"


__getattr__ = lazy_names(__name__, _WHERE)
sys.meta_path.insert(0, MovedPackages())  # first: an old package may still have a folder with a __pycache__
