"""Evaluation: the runner that plays a fixed list of tasks, records with statistics, comparisons, the report page.

    evaluation = await evaluate(policy, "sql/store-v1", "held_out", config=RolloutConfig(group_size=4))
    print(evaluation.success())

Names are loaded on first use, so that the command line starts quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentgym.moved import lazy_names

if TYPE_CHECKING:
    from agentgym.evaluation import export
    from agentgym.evaluation.held_out_log import held_out_uses
    from agentgym.evaluation.record import Evaluation, select_episodes
    from agentgym.evaluation.search import make_search
    from agentgym.evaluation.text import format_evaluation, format_gains
    from agentgym.evaluation.weakness import histories

_HOME = {
    "Evaluation": "record",
    "format_evaluation": "text",
    "format_gains": "text",
    "held_out_uses": "held_out_log",
    "histories": "weakness",
    "make_search": "search",
    "select_episodes": "record",
}
__all__ = [
    "Evaluation",
    "export",
    "format_evaluation",
    "format_gains",
    "held_out_uses",
    "histories",
    "make_search",
    "select_episodes",
]


__getattr__ = lazy_names(__name__, _HOME)
