"""The conformance kit: checks that environments, tools, rewards, policies and other parts keep their contracts.

    from . import check_environment
    await check_environment("acme/sql-v1", "acme/questions-v1")   # None, or a ConformanceError with every finding

Each check runs the code under test. A finding says what the check did, what came back and what was expected.

environments.py      check_environment, which runs the checks in these files:
    instance_checks.py  the same seed gives the same episode; checkpoints restore
    pace_checks.py      every call is answered with a result, and blocks no other episode
    close_checks.py     `close` frees sandboxes, files, threads, tasks and processes
    episode_checks.py   which agents may succeed in whole episodes, and which must not
arguments.py         right, wrong and hostile arguments for any tool
tools.py, task_sets.py, rewards.py, estimators.py, objectives.py, policies.py, call_formats.py, backends/
                     one check for each other kind of part
hack_probes.py, reward_hacks.py   whether an agent that solved nothing gets a reward
exact/               the exact bias of an estimator, summed over every group of a small problem
hidden_truth.py      is a task's truth shown to the agent?
findings.py          collects findings
block_guard.py       interrupts and names code that never gives control back
clock.py FakeClock   counter.py small environments   byte_renderer.py a renderer without a tokenizer
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.moved import lazy_names

if TYPE_CHECKING:
    from .backends.runs import check_backend
    from .byte_renderer import ByteRenderer
    from .call_formats import check_call_format
    from .clock import FakeClock
    from .counter import Counter, CounterWithState, TargetReached
    from .environments import check_environment
    from .estimators import check_estimator
    from .objectives import check_objective
    from .policies import check_policy
    from .reward_hacks import check_reward_hacks
    from .rewards import check_reward
    from .task_sets import check_task_set
    from .tools import check_tool

_HOME = {
    "ByteRenderer": "byte_renderer",
    "Counter": "counter",
    "CounterWithState": "counter",
    "FakeClock": "clock",
    "TargetReached": "counter",
    "check_backend": "backends.runs",
    "check_call_format": "call_formats",
    "check_environment": "environments",
    "check_estimator": "estimators",
    "check_objective": "objectives",
    "check_policy": "policies",
    "check_reward": "rewards",
    "check_reward_hacks": "reward_hacks",
    "check_task_set": "task_sets",
    "check_tool": "tools",
}
__all__ = [
    "ByteRenderer",
    "Counter",
    "CounterWithState",
    "FakeClock",
    "TargetReached",
    "check_backend",
    "check_call_format",
    "check_environment",
    "check_estimator",
    "check_objective",
    "check_policy",
    "check_reward",
    "check_reward_hacks",
    "check_task_set",
    "check_tool",
]


__getattr__ = lazy_names(__name__, _HOME)
