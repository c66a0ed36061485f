"""Holm's correction: many comparisons, and the chance of even one false alarm held at the level."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.errors import EvaluationError


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values adjusted for how many there are: reject where the adjusted one is at most the level.

    Raises: EvaluationError for a value outside [0, 1].
    Source: Holm 1979, Scand. J. Stat. 6(2):65-70. Valid under any dependence of the tests.
    """
    given = np.asarray(p_values, np.float64)
    if given.size and not (np.isfinite(given).all() and given.min() >= 0 and given.max() <= 1):
        raise EvaluationError(f"p-values {list(p_values)}: each lies between 0 and 1.")
    order = np.argsort(given, kind="stable")
    scaled = given[order] * (given.size - np.arange(given.size))
    adjusted = np.empty_like(given)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled)) if given.size else scaled
    return [float(p) for p in adjusted]
