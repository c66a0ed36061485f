"""Bias classes that depend on an estimator's options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym.credit import BiasClass


def unbiased_if_leave_one_out(options: Mapping[str, Any]) -> BiasClass:
    """Return the bias class of an estimator that is unbiased with a leave-one-out baseline and no discount."""
    return "unbiased" if (options["baseline"], options["gamma"]) == ("loo", 1) else "biased"


def direction_by_trajectories(options: Mapping[str, Any]) -> BiasClass:
    """Return the bias class of an estimator: "direction" if every trajectory has the same weight, else "biased"."""
    return "direction" if options["weigh"] == "trajectories" else "biased"
