"""agentgym: the gym in which any LLM agent learns any tool.

    import agentgym
    env = agentgym.make("agentgym/sql-v1")

The names below are loaded when first used: importing agentgym is quick, and reads and prints nothing.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from agentgym._imports import lazy_names
from agentgym.moved import MovedPackages

if TYPE_CHECKING:
    from agentgym._imports import install_command
    from agentgym.environment import Checkpoint, Environment, GuestModule, HasContexts, ObservedState, Outlook
    from agentgym.environment.guest_module import GuestObject, GuestStopped
    from agentgym.errors import (
        AgentGymError,
        ConformanceError,
        ContextFull,
        CreditError,
        DuplicateNameError,
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
        RegistrationError,
        ReplayDiverged,
        RewardError,
        SandboxDied,
        SandboxError,
        SandboxExhausted,
        SandboxUnavailable,
        ScriptEnded,
        SearchError,
        ServerUnreachable,
        ShapeError,
        SplitLeakError,
        TaskError,
        ToolDefinitionError,
        ToolError,
        UnknownNameError,
    )
    from agentgym.evaluation import compare, evaluate
    from agentgym.messages import (
        Call,
        Content,
        ImagePart,
        Message,
        Part,
        Result,
        ResultStatus,
        StopReason,
        TextPart,
        images_of,
    )
    from agentgym.policy import Policy
    from agentgym.policy.scripted import ScriptedPolicy
    from agentgym.registry import (
        BackendUser,
        close_backends,
        load,
        load_reward,
        load_task_set,
        make,
        prototype,
        register,
        shared_backend,
    )
    from agentgym.reward import Combined, Gate, Reward, Schedule, reward_function
    from agentgym.rollout import Budgets, EpisodeManager, RolloutConfig
    from agentgym.sandbox import SandboxSpec
    from agentgym.task import SPLITS, Split, Task, TaskSet, seed_of, task_from_json, task_to_json
    from agentgym.threads import in_thread
    from agentgym.tools import Tool, tool
    from agentgym.trajectory import Row, Span, Trajectory, Turn

_HOME = {
    "_imports": ("install_command",),
    "environment": (
        "Checkpoint",
        "Environment",
        "GuestModule",
        "HasContexts",
        "ObservedState",
        "Outlook",
    ),
    "errors": (
        "AgentGymError",
        "ConformanceError",
        "ContextFull",
        "CreditError",
        "DuplicateNameError",
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
        "RegistrationError",
        "ReplayDiverged",
        "RewardError",
        "SandboxDied",
        "SandboxError",
        "SandboxExhausted",
        "SandboxUnavailable",
        "ScriptEnded",
        "SearchError",
        "ServerUnreachable",
        "ShapeError",
        "SplitLeakError",
        "TaskError",
        "ToolDefinitionError",
        "ToolError",
        "UnknownNameError",
    ),
    "evaluation": ("compare", "evaluate"),
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
        "images_of",
    ),
    "environment.guest_module": ("GuestObject", "GuestStopped"),
    "policy": ("Policy",),
    "policy.scripted": ("ScriptedPolicy",),
    "registry": (
        "BackendUser",
        "prototype",
        "close_backends",
        "load",
        "load_reward",
        "load_task_set",
        "make",
        "register",
        "shared_backend",
    ),
    "reward": ("Combined", "Gate", "Reward", "Schedule", "reward_function"),
    "rollout": ("Budgets", "EpisodeManager", "RolloutConfig"),
    "sandbox": ("SandboxSpec",),
    "task": ("SPLITS", "Split", "Task", "TaskSet", "seed_of", "task_from_json", "task_to_json"),
    "threads": ("in_thread",),
    "tools": ("Tool", "tool"),  # `agentgym.tool` is the decorator, so its module cannot have that name
    "trajectory": ("Row", "Span", "Trajectory", "Turn"),
}
_WHERE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "SPLITS",
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
    "DuplicateNameError",
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
    "HasContexts",
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
    "RegistrationError",
    "ReplayDiverged",
    "Result",
    "ResultStatus",
    "Reward",
    "RewardError",
    "RolloutConfig",
    "Row",
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
    "ShapeError",
    "Span",
    "Split",
    "SplitLeakError",
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
    "close_backends",
    "compare",
    "evaluate",
    "images_of",
    "in_thread",
    "install_command",
    "load",
    "load_reward",
    "load_task_set",
    "make",
    "prototype",
    "register",
    "reward_function",
    "seed_of",
    "shared_backend",
    "task_from_json",
    "task_to_json",
    "tool",
]
__version__ = "0.3.0"


__getattr__ = lazy_names(__name__, _WHERE)
sys.meta_path.insert(0, MovedPackages())  # before a folder that holds nothing but an old __pycache__
