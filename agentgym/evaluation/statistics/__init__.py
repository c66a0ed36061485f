"""The statistics of evaluation, one idea a file. numpy only: scipy, statsmodels and rliable are checked against.

Outcomes are a list with one entry a task, each the list of that task's samples (1.0 solved, 0.0 not).
The samples of one task are not independent draws, so the task is the unit of every interval here.
A task without any sample (all of its episodes failed) is left out by the caller.
"""

from __future__ import annotations

from agentgym.moved import moved_names

__all__: list[str] = []


__getattr__ = moved_names(__name__)
