"""How fast a small softmax policy learns a bifurcation task from an estimator's credit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentgym.credit.contract import Estimator
from research.credit_bench.bifurcation import BifurcationTask
from research.credit_bench.measures import BootstrapInterval

TARGET = 0.9  # chance of the right action at the decisive turn
LEARNING_RATE = 0.5
_DECAY = 0.9


@dataclass(frozen=True, slots=True)
class LearningSpeed:
    """Steps until the right action has chance 0.9: the median over seeds with its interval.

    `never` is the share of seeds that did not get there; they count with the maximum number of steps.
    """

    steps: BootstrapInterval
    never: float


def measure_learning(
    estimate: Estimator, turns: int, *, size: int = 8, most: int = 300, seeds: int = 10
) -> LearningSpeed:
    """Train one logit per turn by the policy gradient, one group per step.

    Estimators have different scales, so each update is divided by the running root mean square of the credit: only the
    credit's position matters, not its size. Every seed has its own decisive turn.
    Raises: as `measure`.
    """
    steps_of_seeds = np.array([_steps(estimate, turns, size, most, seed) for seed in range(seeds)], np.float64)
    rng = np.random.default_rng(0)
    medians = np.median(steps_of_seeds[rng.integers(0, seeds, (1000, seeds))], axis=1)
    low, high = np.percentile(medians, (2.5, 97.5))
    steps = BootstrapInterval(float(np.median(steps_of_seeds)), float(low), float(high))
    return LearningSpeed(steps, float((steps_of_seeds >= most).mean()))


def _steps(estimate: Estimator, turns: int, size: int, most: int, seed: int) -> int:
    rng = np.random.default_rng([seed, turns])
    task = BifurcationTask(turns, int(rng.integers(turns)), seed=seed)
    logits, square = np.zeros(turns), 0.0
    tree = "branches" in estimate.requires
    for step in range(most):
        chance = 1 / (1 + np.exp(-logits))
        if chance[task.decisive] >= TARGET:
            return step
        sample = task.sample(chance, size, rng, tree=tree)
        credit = np.stack(estimate(task.group(sample, chance, rng, estimate.requires)))
        square = _DECAY * square + (1 - _DECAY) * float((credit**2).mean())
        scale = np.sqrt(square / (1 - _DECAY ** (step + 1)))
        if scale > 0:
            logits += LEARNING_RATE * (credit * (sample.actions - chance)).mean(axis=0) / scale
    return most
