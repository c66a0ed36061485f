"""The pace of a training that plays ahead or on a cluster: the last figures in its log, with descriptions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """A number that the training logs.

    Attributes:
        name: the figure's name in words. `metric`: its name in the log.
        unit: `count`, `share` (of 1), `seconds`, `rate` (per second) or `steps`.
    """

    name: str
    metric: str
    unit: str


FIGURES = (
    Figure("nodes", "cluster/nodes", "count"),
    Figure("workers lost so far", "cluster/lost", "count"),
    Figure("episodes on the nodes", "cluster/episodes", "count"),
    Figure("driver busy", "driver/busy", "share"),
    Figure("episodes in flight", "async/episodes", "count"),
    Figure("groups in flight", "async/in_flight", "count"),
    Figure("groups queued", "async/queued", "count"),
    Figure("age of tokens, mean", "async/age_mean", "steps"),
    Figure("age of tokens, oldest", "async/age_max", "steps"),
    Figure("turns masked as too old", "async/masked", "share"),
    Figure("effective sample size", "off_policy/effective_sample_size", "share"),
    Figure("publish lag of weights", "async/publish_s", "seconds"),
    Figure("trainer waited for groups", "async/waited_s", "seconds"),
    Figure("episodes per second", "pace/episodes_per_s", "rate"),
    Figure("tokens per second", "pace/tokens_per_s", "rate"),
    Figure("episodes wait for the policy", "pace/policy_wait", "share"),
    Figure("episodes wait for tools", "pace/tools_wait", "share"),
    Figure("episodes wait for resets and judges", "pace/other_wait", "share"),
)


def pace_rows(log: Sequence[Mapping[str, float]]) -> list[dict[str, Any]]:
    """Return the last value of each logged figure, in the order of FIGURES; empty before the first step.

    Args:
        log: rows of a training phase.
    """
    rows = []
    for figure in FIGURES:
        values = [row[figure.metric] for row in log if math.isfinite(row.get(figure.metric, math.nan))]
        if values:
            rows.append({"name": figure.name, "metric": figure.metric, "unit": figure.unit, "value": values[-1]})
    return rows


def in_words(unit: str, value: float) -> str:
    """Return a figure as a terminal shows it: "3", "25 %", "0.7 ms", "12.4 a second", "1.8 steps"."""
    if unit == "count":
        return f"{value:,.0f}"
    if unit == "share":
        return f"{100 * value:.0f} %"
    if unit == "seconds":
        return f"{1000 * value:.1f} ms" if value < 1 else f"{value:.1f} s"
    return f"{value:,.1f} " + ("a second" if unit == "rate" else "steps")
