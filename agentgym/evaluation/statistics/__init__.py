"""The statistics of evaluation, one idea per file. Uses numpy only; tests compare with scipy, statsmodels and rliable.

Outcomes are a list with one entry per task, each the list of that task's samples (1.0 solved, 0.0 not).
The samples of one task are not independent draws, so the task is the unit of every interval here.
The caller omits tasks without any sample (all of their episodes failed).
"""

from __future__ import annotations

from agentgym.moved import moved_names

__all__: list[str] = []


__getattr__ = moved_names(__name__)
