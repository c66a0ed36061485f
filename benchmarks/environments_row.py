"""One measured line of the environment benchmarks, shared by every `environments_<part>.py`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """The speed of one environment and of the bare engine that it wraps, both measured in the same run.

    Attributes:
        name: Environment id, with what was measured where it is not obvious ("agentgym/sql-v1 query").
        per_cpu_second: Steps (tool calls through `Environment.call`) per second of CPU, children included.
        against: What it is compared with ("sqlite3.Connection.execute"), or "" where nothing bare does the same work.
        ratio: `per_cpu_second` divided by the bare thing's rate of the same run; 0.0 where `against` is "".
    """

    name: str
    per_cpu_second: float
    against: str
    ratio: float
