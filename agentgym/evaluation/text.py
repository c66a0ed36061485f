"""Evaluations, gains, usage and counts as text for terminals and logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from agentgym.evaluation.comparison import compare
from agentgym.evaluation.cuts import format_cuts
from agentgym.evaluation.price import PRICE
from agentgym.evaluation.record import Evaluation
from agentgym.evaluation.statistics.bootstrap import mean_interval
from agentgym.evaluation.strata import strata
from agentgym.rollout.failures import format_causes
from agentgym.text import counted, format_count, percent, points

MAX_TAGS = 5


def format_evaluation(evaluation: Evaluation) -> str:
    """Return one line: success with its interval, and the number of failed episodes."""
    line = f"{evaluation.label}: {evaluation.success().percent()} of {counted(len(evaluation.rows), 'task')} solved"
    line += f" ({evaluation.policy}{format_search(evaluation)})"
    if evaluation.held_out_uses:
        line += f", held-out tasks used {format_count(evaluation.held_out_uses)} before"
    if evaluation.adapted:
        line += f", {evaluation.adapted}"
    if evaluation.knowledge:
        line += f", {evaluation.knowledge}"
    if weaker := format_weaker(evaluation.weaker_limits):
        line += f", {weaker}"
    if attempts := format_attempts(evaluation):
        line += f", attempts: {attempts}"
    if cuts := format_cuts(evaluation.cuts()):
        line += f", {cuts}"
    return line + (f", {evaluation.failed} episodes failed and are left out" if evaluation.failed else "")


def format_weaker(limits: Sequence[str]) -> str:
    """Return the limits that sandboxes did not enforce as text; empty without one."""
    return f"sandboxes with weaker limits: {', '.join(limits)}" if limits else ""


def format_attempts(evaluation: Evaluation) -> str:
    """Return the rates of `OutcomeStatistics.attempts` as text; empty unless episodes have several attempts."""
    rates = [f"{name} {percent(estimate.value)}" for name, estimate in evaluation.attempts().items()]
    return ", ".join(rates)


def format_choices(evaluation: Evaluation) -> list[str]:
    """Return a line for each way to choose among episodes, with the success of the chosen one, and the cost."""
    lines = []
    for name in evaluation.rows[0].choices if evaluation.rows else ():
        curve = evaluation.chosen(name)
        rates = ", ".join(f"{estimate.percent()} of {k}" for k, estimate in curve.items())
        lines.append(f"chosen by {name}: {rates}")
    if lines and (cost := _cost_of_a_choice(evaluation)):
        lines.append(f"all {evaluation.group_size} episodes of a task take {cost}")
    return lines


def _cost_of_a_choice(evaluation: Evaluation) -> str:
    tasks = len(evaluation.rows)
    parts = []
    if written := sum(sum(row.tokens) for row in evaluation.rows):
        parts.append(f"{written / tasks:,.0f} tokens of the agent")
    if price := evaluation.usage().get(PRICE):
        parts.append(f"price {price / tasks:.2g}")
    return " and ".join(parts)


def format_search(evaluation: Evaluation) -> str:
    """Return a comma and a description of the search that produced the episodes; empty without a search."""
    if not (search := evaluation.search):
        return ""
    oracle = ", which reads the outcome: an oracle value" if search["oracle_value"] else ""
    return f", searched by {search['search']} with {search['nodes']} nodes, value {search['value']}{oracle}"


def format_gains(before: Evaluation, after: Evaluation, *, first: str | None = None) -> str:
    """Return the gain of `after` over `before`, for all tasks and then per tag; `first` names a tag to list first.

    Raises: EvaluationError if the two did not play exactly the same tasks.
    """
    common, left_out = strata(after, MAX_TAGS, first)
    tags = [first, None, *common[1:]] if first in common else [None, *common]
    lines = [f"Success on {len(after.rows)} {after.split} tasks of {after.task_set}"]
    lines += [f"  {e.label} was {e.adapted}" for e in (before, after) if e.adapted]
    lines += [f"  {e.label} was {e.knowledge}" for e in (before, after) if e.knowledge]
    width = max(len(tag or "all tasks") for tag in tags)
    for tag in tags:
        gain = compare(before, after, tag=tag)
        rates = [percent(evaluation.success(tag).value) for evaluation in (before, after)]
        change, p = gain.difference, gain.permutation_p
        lines.append(
            f"  {tag or 'all tasks':<{width}}  {rates[0]:>4} -> {rates[1]:>4}   gain {points(change.value)} points, "
            f"95 % interval {points(change.low)} to {points(change.high)}, p = {p:.1g}"
        )
    if left_out:
        lines.append(f"  not shown: {left_out}")
    if failed := before.failed + after.failed:
        lines.append(f"  {failed} episodes failed and are left out")
        lines += [f"    {line}" for line in format_causes(before.causes() + after.causes())]
    return "\n".join(lines)


def format_projection(evaluation: Evaluation, tasks: int) -> str:
    """Return what all `tasks` of the split would take, from those that were played; empty if all were played.

    The intervals are of the mean over tasks, times their number.
    """
    if len(evaluation.rows) >= tasks:
        return ""
    phrases = []
    for name, phrase in _PROJECTED.items():
        values = np.array([sum(usage.get(name, 0.0) for usage in row.usage) for row in evaluation.rows])
        if values.any():
            mean = mean_interval(values)
            phrases.append(phrase.format(*(tasks * number for number in (mean.value, mean.low, mean.high))))
    return f"all {tasks:,} tasks of the split would take about {', '.join(phrases)}" if phrases else ""


def format_usage(usage: Mapping[str, float]) -> list[str]:
    """Return phrases such as "CPU 0.3 s" for every nonzero usage. Names as in `Turn.usage`."""
    return [phrase(usage[name]) for name, phrase in _PHRASES.items() if usage.get(name)]


def _seconds(seconds: float) -> str:
    if seconds < 1:
        return f"{1000 * seconds:.3g} ms"
    return f"{seconds:.1f} s" if seconds < 600 else f"{seconds / 3600:.1f} h"


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:,.1f} GiB"


_PROJECTED = {
    "prompt_tokens": "{:,.0f} prompt tokens ({:,.0f} to {:,.0f})",
    "completion_tokens": "{:,.0f} completion tokens ({:,.0f} to {:,.0f})",
    PRICE: "price {:,.3g} ({:,.3g} to {:,.3g})",
}
_PHRASES: dict[str, Callable[[float], str]] = {
    "prompt_tokens": lambda n: f"{n:,.0f} prompt tokens",
    "completion_tokens": lambda n: f"{n:,.0f} completion tokens",
    "cost": lambda n: f"cost {n:,.4g}",
    "price": lambda n: f"price {n:,.4g}",
    "cpu_s": lambda n: f"CPU {_seconds(n)}",
    "wall_s": lambda n: f"wall {_seconds(n)}",
    "peak_memory_mib": lambda n: f"peak {n:,.3g} MiB" if n < 1000 else f"peak {n / 1024:,.1f} GiB",
    "written_bytes": lambda n: f"{_bytes(n)} written",
    "started": lambda n: f"{n:,.0f} process{'es' if n != 1 else ''}",
    "search_nodes": lambda n: f"{n:,.0f} nodes of search trees",
    "search_rollouts": lambda n: f"{n:,.0f} rollouts from them",
    "search_calls": lambda n: f"{n:,.0f} messages in the search",
    "search_tokens": lambda n: f"{n:,.0f} tokens in the search",
    "search_failed": lambda n: f"{n:,.0f} nodes that failed",
}
"""Usage of the policy, tools, sandboxes and searches, in print order."""
