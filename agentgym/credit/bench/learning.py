"""How fast a small softmax policy learns a bifurcation task from an estimator's credit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentgym.credit.bench.bifurcation import BifurcationTask
from agentgym.credit.bench.measures import BootstrapInterval
from agentgym.credit.contract import Estimator

REACHED = 0.9  # chance of the right action at the decisive turn
RATE = 0.5
_MEMORY = 0.9


@dataclass(frozen=True, slots=True)
class LearningSpeed:
    """Steps until the right action has chance 0.9, over seeds: the median with its interval. `never`: share of
    seeds that did not get there; they count with the most steps there were."""

    steps: BootstrapInterval
    never: float


def measure_learning(
    estimate: Estimator, turns: int, *, size: int = 8, most: int = 300, seeds: int = 10
) -> LearningSpeed:
    """Train one logit a turn by the policy gradient, one group a step.

    Estimators have scales of their own, so each update is in units of the running root mean square of the
    credit: what differs is where the credit lies, not how large it is. Every seed has its own decisive turn.
    Raises: as `measure`.
    """
    taken = np.array([_steps(estimate, turns, size, most, seed) for seed in range(seeds)], np.float64)
    rng = np.random.default_rng(0)
    medians = np.median(taken[rng.integers(0, seeds, (1000, seeds))], axis=1)
    low, high = np.percentile(medians, (2.5, 97.5))
    steps = BootstrapInterval(float(np.median(taken)), float(low), float(high))
    return LearningSpeed(steps, float((taken >= most).mean()))


def _steps(estimate: Estimator, turns: int, size: int, most: int, seed: int) -> int:
    rng = np.random.default_rng([seed, turns])
    task = BifurcationTask(turns, int(rng.integers(turns)), seed=seed)
    logits, square = np.zeros(turns), 0.0
    tree = "branches" in estimate.requires
    for step in range(most):
        chance = 1 / (1 + np.exp(-logits))
        if chance[task.decisive] >= REACHED:
            return step
        play = task.play(chance, size, rng, tree=tree)
        credit = np.stack(estimate(task.group(play, chance, rng, estimate.requires)))
        square = _MEMORY * square + (1 - _MEMORY) * float((credit**2).mean())
        scale = np.sqrt(square / (1 - _MEMORY ** (step + 1)))
        if scale > 0:
            logits += RATE * (credit * (play.actions - chance)).mean(axis=0) / scale
    return most
