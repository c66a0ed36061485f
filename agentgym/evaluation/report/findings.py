"""The results of a run as plain data for a page: gains per kind of task, episodes worth reading, time and cost."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agentgym.errors import AgentGymError
from agentgym.evaluation.comparison import compare
from agentgym.evaluation.outcomes import TaskOutcome
from agentgym.evaluation.record import Evaluation
from agentgym.evaluation.report.contents import Contents
from agentgym.evaluation.statistics.estimate import Estimate
from agentgym.evaluation.strata import strata
from agentgym.evaluation.text import format_attempts, format_usage, format_weaker
from agentgym.text import visible

MAX_TAGS = 12
"""The maximum number of tags in the table of gains; tasks may have many more."""
MAX_PAIRS = 2
"""The maximum number of tasks whose episodes before and after training are suggested for reading."""


def findings(contents: Contents) -> dict[str, Any]:
    """Return all findings of this module, under the names used by the page's scripts."""
    return {
        "gains": gains(contents),
        "kinds_left_out": strata(after, MAX_TAGS, stratum(contents))[1] if (after := contents.pair()[1]) else "",
        "to_read": episodes_to_read(contents),
        "timings": timings(contents),
        "usage": usage(contents),
        "attempts": format_attempts(after) if after is not None else "",
        "adapted": visible(after.adapted) if after is not None else "",
        "weaker": format_weaker(after.weaker_limits) if after is not None else "",
        "control": success_of(contents, "control"),
        "zero_shot": success_of(contents, "zero_shot"),
    }


def stratum(contents: Contents) -> str | None:
    """Return the tag of the headline figure, the recipe's `evaluate.stratum`; None if no evaluated task has it."""
    tag = contents.recipe_value("evaluate", "stratum")
    return tag if any(e is not None and tag in e.tags for e in contents.pair()) else None


def gains(contents: Contents) -> list[dict[str, Any]]:
    """List success before, after and the paired gain: for all tasks (tag None), then per tag."""
    before, after = contents.pair()
    if after is None:
        return []
    tags, _ = strata(after, MAX_TAGS, stratum(contents))
    each = contents.same_tasks()
    return [
        _gain(tag, before, after) | {"each": [estimate_data(e.success(tag)) for e in each]} for tag in (None, *tags)
    ]


def _gain(tag: str | None, before: Evaluation | None, after: Evaluation) -> dict[str, Any]:
    row: dict[str, Any] = {
        "tag": None if tag is None else visible(tag),
        "tasks": len(after.select(tag)),
        "before": None,
        "after": estimate_data(after.success(tag)),
        "gain": None,
    }
    if before is None:
        return row
    row["before"] = estimate_data(before.success(tag))
    try:
        comparison = compare(before, after, tag=tag)
    except AgentGymError:
        return row
    row["gain"] = estimate_data(comparison.difference) | {
        "p": finite(comparison.p_value),
        "better": comparison.better,
        "worse": comparison.worse,
        "same": comparison.same,
        "significant": comparison.significant,
    }
    return row


def success_of(contents: Contents, label: str) -> dict[str, Any] | None:
    """Return the success of an evaluation that is not compared: `control` (tools on other data) or `zero_shot`."""
    evaluation = next((e for e in contents.evaluations if e.label == label), None)
    if evaluation is None:
        return None
    tag = stratum(contents)
    return estimate_data(evaluation.success(tag if tag in evaluation.tags else None))


def episodes_to_read(contents: Contents) -> list[dict[str, Any]]:
    """Return pairs of episode ids worth comparing side by side, each with the reason.

    First come episodes of the same task before and after training, newly solved tasks first, with different tags if
    possible. Then come the two episodes of one training group whose credit differs most, if `contents.credit` was read.
    """
    before, after = contents.pair()
    pairs = []
    trained = "after training" if contents.recipe else "its first episode"
    reason = "before and after training" if before is not None else trained
    for task in _tasks_to_read(before, after):
        ids = [f"{e.run}/{task}#0" for e in (before, after) if e is not None]
        pairs.append({"task": visible(task), "reason": reason, "ids": ids})
    if group := _group_to_read(contents.credit):
        task = group[0].rpartition("#")[0].partition("/")[2]
        pairs.append({"task": visible(task), "reason": "most and least credit of one training group", "ids": group})
    return pairs


def _tasks_to_read(before: Evaluation | None, after: Evaluation | None) -> list[str]:
    if after is None:
        return []
    rows_before = {row.task: row for row in before.rows} if before else {}
    rows = {row.task: row for row in after.rows if row.success and row.success[0] is not None}

    def rank(task: str) -> tuple[int, int]:
        outcome = (_first_is_solved(rows[task]), _first_is_solved(rows_before.get(task)))
        order = {(True, False): 0, (True, True): 1, (False, True): 2, (False, False): 3}
        return order[outcome], -max(rows[task].turns, default=0)

    ordered = sorted(rows, key=rank)
    by_tags: dict[tuple[str, ...], str] = {}
    for task in ordered:
        by_tags.setdefault(tuple(rows[task].tags), task)
    different = list(by_tags.values())
    return [*different, *(task for task in ordered if task not in different)][:MAX_PAIRS]


def _first_is_solved(row: TaskOutcome | None) -> bool:
    return bool(row is not None and row.success and row.success[0])


def _group_to_read(credit: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the episodes with the highest and lowest mean credit, for the task with the largest difference."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in credit:
        groups[name.rpartition("#")[0]].append(name)

    def mean(name: str) -> float:
        return sum(credit[name]) / max(1, len(credit[name]))

    gaps = {task: max(map(mean, names)) - min(map(mean, names)) for task, names in groups.items() if len(names) > 1}
    if not gaps or max(gaps.values()) < 1e-9:
        return []
    names = groups[max(gaps, key=lambda task: gaps[task])]
    return [max(names, key=mean), min(names, key=mean)]


def timings(contents: Contents) -> list[dict[str, Any]]:
    """Return the seconds of each phase, from its first to its last row in the metrics, and the seconds per step."""
    phases = []
    for phase, rows in contents.metrics.items():
        times = [row["time"] for row in rows if "time" in row]
        if len(times) > 1 and "validation" not in phase:
            seconds = max(times) - min(times)
            steps = int(rows[-1]["step"] - rows[0]["step"])
            phases.append(
                {
                    "phase": visible(phase),
                    "seconds": finite(seconds),
                    "step_s": finite(seconds / steps) if steps else None,
                }
            )
    return phases


def usage(contents: Contents) -> list[dict[str, Any]]:
    """Return the usage of sandboxes, tools and APIs of each evaluation's episodes, as phrases."""
    phrases = {e.label: format_usage(e.usage() | {"wall_s": e.duration_s}) for e in contents.evaluations}
    return [{"label": visible(label), "phrases": words} for label, words in phrases.items() if words]


def estimate_data(estimate: Estimate) -> dict[str, Any]:
    """Return value and interval; None for missing data."""
    return {name: finite(value) for name, value in asdict(estimate).items() if name in ("value", "low", "high")}


def finite(value: float) -> float | None:
    """Return the number, or None for NaN and infinities, which JSON lacks."""
    return value if math.isfinite(value) else None
