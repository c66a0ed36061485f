"""The conformance kit: does an environment, tool, task set, reward, estimator, policy or backend keep its contract?

    from agentgym.testing import check_environment
    await check_environment("acme/sql-v1", "acme/questions-v1")   # None, or a ConformanceError with every finding

Each check runs what it checks, and says in each finding what was done, what came back and what was expected.

environments.py  check_environment, made of
    world.py     the same seed gives the same world      answers.py  every call is answered
    closing.py   close frees everything                  agents.py   what whole episodes come to
    leftovers.py what is left in the process             arguments.py  right, wrong and hostile arguments
tools.py, task_sets.py, rewards.py, estimators.py, policies.py, call_formats.py, backends/   the other checks
hacks.py, reward_hacks.py  is anybody paid who solved nothing?
hidden_truth.py  is the truth shown?                     findings.py  how breaches are kept
clock.py  FakeClock      counter.py  a tiny world        byte_renderer.py  a tiny renderer
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_WHERE = {
    "check_backend": "agentgym.testing.backends",
    "check_call_format": "agentgym.testing.call_formats",
    "check_environment": "agentgym.testing.environments",
    "check_estimator": "agentgym.testing.estimators",
    "check_policy": "agentgym.testing.policies",
    "check_reward": "agentgym.testing.rewards",
    "check_reward_hacks": "agentgym.testing.reward_hacks",
    "check_task_set": "agentgym.testing.task_sets",
    "check_tool": "agentgym.testing.tools",
    "FakeClock": "agentgym.testing.clock",
    "ScriptedPolicy": "agentgym.policy.scripted",
}
__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:  # loaded when first used: to check a tool takes no numpy
        raise AttributeError(f"module 'agentgym.testing' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value
    return value
