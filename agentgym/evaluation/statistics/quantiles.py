"""Quantiles of the normal, Student's t and gamma distributions, and the normal distribution function, without scipy."""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray


def normal_quantile(p: float) -> float:
    """Return z with P(Z <= z) = p, for p in (0, 1)."""
    return NormalDist().inv_cdf(p)


def normal_cdf(z: float) -> float:
    """Return P(Z <= z)."""
    return 0.5 * math.erfc(-z / math.sqrt(2))


@cache
def t_quantile(p: float, df: int) -> float:
    """Return t with P(T <= t) = p for `df` >= 1 degrees of freedom and p in (0, 1), to about 1e-9.

    Bisects the distribution function, which after substituting t = sqrt(df) tan(a) integrates cos(a)**(df - 1).
    """
    if p < 0.5:
        return -t_quantile(1 - p, df)
    nodes, weights = _nodes()
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(math.pi)
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        end = (low + high) / 2
        span = min(end, 40 / math.sqrt(df))  # beyond this the integrand is below 1e-300
        area = float(weights @ np.cos((nodes + 1) * span / 2) ** (df - 1)) * span / 2
        low, high = (end, high) if 0.5 + scale * area < p else (low, end)
    return math.sqrt(df) * math.tan((low + high) / 2)


@cache
def gamma_quantile(p: float, shape: float) -> float:
    """Return x with P(X <= x) = p for a gamma distribution of scale 1, `shape` in (0, 20] and p in (0, 1).

    Bisects the distribution function, whose series is x^a e^-x (1 / G(a + 1) + x / G(a + 2) + ...).
    """
    low, high = 0.0, shape + 20 * math.sqrt(shape) + 40
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _gamma_cdf(middle, shape) < p else (low, middle)
    return (low + high) / 2


def _gamma_cdf(x: float, shape: float) -> float:
    term = math.exp(shape * math.log(x) - x - math.lgamma(shape + 1)) if x > 0 else 0.0
    total, index = term, shape
    while term > 1e-16 * total:
        index += 1
        term *= x / index
        total += term
    return total


@cache
def _nodes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return Gauss-Legendre nodes and weights, enough for the peaked integrands here."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    return nodes, weights
