"""Metrics of the age of a batch's tokens, and of the distance between their policy and the trained one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from agentgym.trajectory.record import Trajectory


def age_metrics(trajectories: Sequence[Trajectory], *, version: int, bound: int) -> dict[str, float]:
    """Return the token ages of a batch in optimiser steps, and the fraction of turns that are too old.

    A turn is as old as its first token, which the oldest weights sampled. After a resume, an episode may come from
    newer weights that were lost with the process; its age is 0.

    Args:
        version: the version of the trained weights. `bound`: turns older than this are masked.
    Returns: `async/age_mean` and `async/age_max` over the agent's own tokens; `async/masked`, the fraction of masked
        turns.
    """
    turns = [turn for trajectory in trajectories if trajectory.valid for turn in trajectory.turns]
    if not turns:
        return {}
    versions = np.concatenate([turn.token_versions() for turn in turns])
    ages = np.maximum(version - versions, 0)
    metrics = {"async/masked": float(np.mean([version - turn.policy_version > bound for turn in turns]))}
    if len(ages):
        metrics |= {"async/age_mean": float(ages.mean()), "async/age_max": float(ages.max())}
    return metrics


def correction_metrics(signals: Mapping[str, Any]) -> dict[str, float]:
    """Return the turns' effective sample size if there are `log_ratios`; see `effective_share`."""
    rows = [turn for trajectory in signals.get("log_ratios", ()) for turn in trajectory if len(turn)]
    if not rows:
        return {}
    return {"off_policy/effective_sample_size": effective_share(np.array([float(np.mean(turn)) for turn in rows]))}


def effective_share(log_weights: np.ndarray) -> float:
    """Return (sum w)^2 / (n sum w^2), between 1/n and 1: the effective sample size as a fraction of n samples.

    Source: Kong 1992, A note on importance sampling using standardized weights.
    """
    weights = np.exp(log_weights - log_weights.max())
    return float(weights.sum() ** 2 / (len(weights) * (weights**2).sum()))
