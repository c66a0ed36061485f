"""Evaluation: the runner that plays a fixed list of tasks, records with statistics, comparisons, the report page.

    evaluation = await evaluate(policy, "sql/store-v1", "held_out", config=RolloutConfig(group_size=4))
    print(evaluation.success())

Names are loaded on first use, so that the command line starts quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.moved import lazy_names

if TYPE_CHECKING:
    from agentgym.evaluation.record import Evaluation, select_episodes
    from agentgym.evaluation.search import make_search
    from agentgym.evaluation.statistics.proportion import success_rate
    from agentgym.evaluation.task_validation import validate_tasks
    from agentgym.evaluation.text import format_evaluation, format_gains

_HOME = {
    "Evaluation": "record",
    "format_evaluation": "text",
    "format_gains": "text",
    "make_search": "search",
    "select_episodes": "record",
    "success_rate": "statistics.proportion",
    "validate_tasks": "task_validation",
}
__all__ = [
    "Evaluation",
    "format_evaluation",
    "format_gains",
    "make_search",
    "select_episodes",
    "success_rate",
    "validate_tasks",
]


__getattr__ = lazy_names(__name__, _HOME)
