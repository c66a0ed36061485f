"""Power analysis: how many tasks are needed to detect a gain, before anything is played."""

from __future__ import annotations

import math

import numpy as np

from agentgym.errors import EvaluationError
from agentgym.evaluation.statistics.estimate import Outcomes
from agentgym.evaluation.statistics.quantiles import normal_cdf, normal_quantile


def tasks_needed(
    gain: float,
    *,
    rate: float = 0.5,
    samples: int = 1,
    agreement: float = 0.5,
    spread: float = 0.5,
    power: float = 0.8,
    level: float = 0.95,
) -> int:
    """Return the number of tasks with which a share `power` of paired comparisons detects a true gain.

    n = ((z_level + z_power) sigma / gain)^2, sigma^2 being the variance of one task's difference (see `_variance`).
    Args:
        gain: true difference in success rate, for example 0.03 for 3 points.
        rate: success rate of the weaker agent. samples: episodes per task, of each agent.
        agreement: correlation, over tasks, of the two agents' chances of solving a task, in [0, 1].
        spread: how unequal tasks are: the variance of their chances as a share of rate (1 - rate). 0 means that all
            tasks are alike, 1 that each task is always or never solved.
        power, level: shares in (0, 1).
    Raises: EvaluationError for numbers out of range.
    Source: Miller 2024, "Adding Error Bars to Evals", arXiv:2411.00640, section 5.
    """
    _check(gain, rate, samples, agreement, spread, level)
    if not 0 < power < 1:
        raise EvaluationError(f"power = {power} is not valid: give a share between 0 and 1, for example 0.8.")
    reach = normal_quantile(0.5 + level / 2) + normal_quantile(power)
    return math.ceil(reach**2 * _variance(gain, rate, samples, agreement, spread) / gain**2)


def power_of(
    tasks: int,
    gain: float,
    *,
    rate: float = 0.5,
    samples: int = 1,
    agreement: float = 0.5,
    spread: float = 0.5,
    level: float = 0.95,
) -> float:
    """Return the chance that a paired comparison over `tasks` detects a true gain. Arguments: see `tasks_needed`."""
    _check(gain, rate, samples, agreement, spread, level)
    if tasks < 1:
        raise EvaluationError(f"tasks = {tasks} is not valid: give at least 1.")
    shift = abs(gain) / math.sqrt(_variance(gain, rate, samples, agreement, spread) / tasks)
    z = normal_quantile(0.5 + level / 2)
    return normal_cdf(shift - z) + normal_cdf(-shift - z)


def spread_of(outcomes: Outcomes, *, default: float = 0.5) -> float:
    """Estimate how unequal an evaluation's tasks are: the `spread` of `tasks_needed`; `default` with one sample per
    task.

    The variance of the tasks' chances as a share of p (1 - p): the variance of the task means less the sampling
    variance, by the analysis of variance for proportions (Ridout, Demetrio and Firth 1999, Biometrics 55(1)).
    """
    repeated = [samples for samples in outcomes if len(samples) > 1]
    if len(repeated) < 2:
        return default
    means, sizes = np.array([np.mean(o) for o in repeated]), np.array([len(o) for o in repeated], np.float64)
    total = sizes.sum()
    rate = float((means * sizes).sum() / total)
    within = float((sizes * means * (1 - means)).sum() / (total - len(repeated)))
    between = float((sizes * (means - rate) ** 2).sum() / (len(repeated) - 1))
    size = float((total - (sizes**2).sum() / total) / (len(repeated) - 1))
    total_variance = between + (size - 1) * within
    return min(1.0, max(0.0, (between - within) / total_variance)) if total_variance > 0 else default


def _variance(gain: float, rate: float, samples: int, agreement: float, spread: float) -> float:
    """Return the variance of one task's difference: unshared variance between tasks plus sampling variance."""
    before, after = rate * (1 - rate), (rate + gain) * (1 - rate - gain)
    between = spread * (before + after - 2 * agreement * math.sqrt(max(0.0, before * after)))
    within = (1 - spread) * (before + after) / samples
    return max(between, gain**2 * 1e-6) + within


def _check(gain: float, rate: float, samples: int, agreement: float, spread: float, level: float) -> None:
    if not 0 < rate < 1 or not 0 <= rate + gain <= 1 or gain == 0:
        raise EvaluationError(
            f"A gain of {100 * gain:g} points on a success rate of {100 * rate:g} % is not possible: rates lie between "
            "0 and 100 %, and a gain must not be 0."
        )
    if samples < 1 or not 0 <= agreement <= 1 or not 0 <= spread <= 1 or not 0 < level < 1:
        raise EvaluationError(
            f"samples={samples}, agreement={agreement}, spread={spread}, level={level} is not valid: samples must be "
            "at least 1, and the others between 0 and 1."
        )
