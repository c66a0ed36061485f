"""Sandboxed executions of the code environments per CPU-second, compared with a plain subprocess that does the same
work.

`python benchmarks/environments.py --only code`, or this file alone. CPU seconds are those of this process and of every
process of the sandboxes, including creation and end.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from environments_row import Row

from agentgym import Call, Task, make
from agentgym.registry import close_backends

PRINT = "print(6 * 7)"
C = '#include <stdio.h>\nint main() { printf("42\\n"); return 0; }\n'
PYTHON = {"file": "main.py", "run": ["python3", "-S", "main.py"]}

# environment, parameters of its task, the call, what is measured, the bare command that does the same
CASES: tuple[tuple[str, dict[str, Any], Call, str, list[str]], ...] = (
    ("agentgym/code-v1", {}, Call("run", {"code": PRINT}), "run", [sys.executable, "-c", PRINT]),
    ("agentgym/code-notebook-v1", {}, Call("cell", {"code": "6 * 7"}), "cell", [sys.executable, "-c", PRINT]),
    (
        "agentgym/code-maths-v1",
        {},
        Call("python", {"code": "from sympy import *; print(6 * 7)"}),
        "sympy at hand",
        [sys.executable, "-c", "from sympy import *; print(6 * 7)"],
    ),
    (
        "agentgym/code-files-v1",
        {"files": {"a.txt": "42"}},
        Call("run", {"command": "cat a.txt"}),
        "run",
        ["bash", "-c", "echo 42"],
    ),
    ("agentgym/code-bash-v1", {}, Call("bash", {"command": "echo 42"}), "bash", ["bash", "-c", "echo 42"]),
    (
        "agentgym/code-program-v1",
        {"program": PYTHON},
        Call("run", {"code": PRINT}),
        "run Python",
        [sys.executable, "-S", "-c", PRINT],
    ),
)


def measure(budget_s: float) -> list[Row]:
    """Measure every case for about `budget_s` seconds of wall time, and its bare command for half as long."""
    rows = []
    for name, parameters, call, what, bare in CASES:
        ours = asyncio.run(_rate(name, parameters, call, budget_s))
        beside = _per_cpu_second(lambda bare=bare: subprocess.run(bare, capture_output=True, check=True), budget_s / 2)
        rows.append(Row(f"{name} {what}", ours, f"subprocess {bare[0].rpartition('/')[2]}", ours / beside))
    return rows


async def _rate(name: str, parameters: dict[str, Any], call: Call, budget_s: float) -> float:
    """Return calls per CPU-second through one environment."""
    await close_backends()
    started, calls = _cpu_s(), 0
    environment = make(name)
    await environment.reset(Task("benchmark", name, "Compute.", parameters=parameters), seed=0)
    end = time.monotonic() + budget_s
    while time.monotonic() < end:
        result = await environment.call(call)
        if result.content != "42":
            raise RuntimeError(f"{name} answered {result.content!r:.200}: what is measured is not the work.")
        calls += 1
    await environment.close()
    await close_backends()  # its processes end, so that their time is counted
    return calls / (_cpu_s() - started)


def _per_cpu_second(work: Callable[[], object], budget_s: float) -> float:
    started, done, end = _cpu_s(), 0, time.monotonic() + budget_s
    while time.monotonic() < end:
        work()
        done += 1
    return done / (_cpu_s() - started)


def _cpu_s() -> float:
    """Return processor seconds of this process and of all its children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


if __name__ == "__main__":
    for row in measure(float(sys.argv[1]) if len(sys.argv) > 1 else 4.0):
        print(f"{row.name:42} {row.per_cpu_second:8.0f} executions per CPU-second, {row.ratio:5.1f} x {row.against}")
