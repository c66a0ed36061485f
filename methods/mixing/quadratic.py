"""A score as a quadratic function of a mixture's weights, and the mixture that maximises it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, combinations_with_replacement

import numpy as np
from numpy.typing import ArrayLike, NDArray

from agentgym import TaskError

Floats = NDArray[np.float64]

RIDGES = (1e-12, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Ridge penalties to try. A fit uses the one with the least leave-one-out error."""
MAX_SOURCES = 12
"""The largest number of task sets.

The search for the highest score visits every nonempty subset of them, at most 2^12 - 1.
"""


@dataclass(frozen=True, slots=True)
class QuadraticFit:
    """score(w) = w' `matrix` w. Since the weights sum to 1, it includes linear and constant terms.

    Attributes:
        matrix: [k, k], symmetric.
        ridge: penalty on the matrix entries, after subtracting the mean score.
        leave_one_out: root mean squared error in units of the score, each mixture predicted by a fit to all others.
    spread: standard deviation of the scores. A fit is meaningless if its `leave_one_out` is not below this.
    """

    matrix: Floats
    ridge: float
    leave_one_out: float
    spread: float

    def score(self, weights: ArrayLike) -> float:
        """Return the predicted score. Args: weights: [k], which sum to 1."""
        row = np.asarray(weights, np.float64)
        return float(row @ self.matrix @ row)

    def best(self) -> Floats:
        """Return [k] the weights with the highest predicted score, exactly: the maximum over each subset of the sources
        is computed in closed form.

        Raises: TaskError for more than 12 sources.
        """
        count = len(self.matrix)
        if count > MAX_SOURCES:
            raise TaskError(f"A mixture of {count} sources is too large for a search. Give at most {MAX_SOURCES}.")
        candidates = [np.eye(count)[index] for index in range(count)]
        for size in range(2, count + 1):
            for face in combinations(range(count), size):
                if (weights := _stationary(self.matrix, list(face))) is not None:
                    candidates.append(weights)
        return max(candidates, key=self.score)


def _stationary(matrix: Floats, face: list[int]) -> Floats | None:
    """Return the stationary point of the score among mixtures of the sources in `face`; None if a weight would be below
    0.
    """
    size = len(face)
    system = np.ones((size + 1, size + 1))
    system[:size, :size] = 2 * matrix[np.ix_(face, face)]
    system[size, size] = 0.0
    solution = np.linalg.lstsq(system, np.append(np.zeros(size), 1.0), rcond=None)[0][:size]
    if (solution < 0).any() or not np.isclose(solution.sum(), 1.0):
        return None
    weights = np.zeros(len(matrix))
    weights[face] = solution / solution.sum()
    return weights


def fit_quadratic(mixtures: Sequence[ArrayLike], scores: ArrayLike) -> QuadraticFit:
    """Fit the scores of some mixtures by ridge regression.

    Args:
        mixtures: [n, k] weights; each row sums to 1.
        scores: [n]
    Raises: TaskError for fewer than three mixtures.
    """
    rows, values = np.asarray(mixtures, np.float64), np.asarray(scores, np.float64)
    if len(rows) < 3:
        raise TaskError(f"Only {len(rows)} mixtures were scored, and a fit needs at least three.")
    pairs = list(combinations_with_replacement(range(rows.shape[1]), 2))
    features = np.stack([rows[:, left] * rows[:, right] for left, right in pairs], axis=1)
    mean = float(values.mean())
    errors = {ridge: _leave_one_out(features, values, ridge) for ridge in RIDGES}
    ridge = min(errors, key=lambda each: errors[each])
    coefficients = _solve(features, values - mean, ridge)
    matrix = np.zeros((rows.shape[1],) * 2)
    for (left, right), coefficient in zip(pairs, coefficients, strict=True):
        matrix[left, right] += coefficient / 2
        matrix[right, left] += coefficient / 2
    return QuadraticFit(matrix + mean, ridge, errors[ridge], float(values.std()))


def _solve(features: Floats, values: Floats, ridge: float) -> Floats:
    """Solve ridge regression as least squares with extra rows, which is more precise than the normal equations."""
    count = features.shape[1]
    rows = np.vstack([features, np.sqrt(ridge) * np.eye(count)])
    solution: Floats = np.linalg.lstsq(rows, np.append(values, np.zeros(count)), rcond=None)[0]
    return solution


def _leave_one_out(features: Floats, values: Floats, ridge: float) -> float:
    """Return the root mean squared error at each left-out mixture; each fit subtracts its own mean."""
    errors = []
    for index in range(len(values)):
        others = np.arange(len(values)) != index
        mean = values[others].mean()
        predicted = mean + features[index] @ _solve(features[others], values[others] - mean, ridge)
        errors.append(float(predicted - values[index]))
    return float(np.sqrt(np.mean(np.square(errors))))
