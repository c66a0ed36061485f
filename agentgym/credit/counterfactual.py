"""What each turn was worth, from the worth of the episode with only some of its turns played.

Functions of a value: from a set of turns to the return of the episode with only those played, by replay. Where
a left-out turn breaks what follows, the value is what the environment then naturally gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from agentgym.credit.signals import Array
from agentgym.errors import CreditError

Turns = frozenset[int]
Value = Callable[[Turns], float]
MAX_EXACT_TURNS = 16


def leave_one_out_values(value: Value, turns: int) -> Array:
    """[K] v(all) - v(all but k): what is missed without each turn. K + 1 values are asked for.

    Does not sum to anything: of two turns either of which would do, both get 0.
    """
    everyone = frozenset(range(turns))
    whole = value(everyone)
    return np.array([whole - value(everyone - {k}) for k in range(turns)], np.float64)


def shapley_values(value: Value, turns: int) -> Array:
    """[K] mean over all orders of the turns of what each adds to those before it. 2^K values are asked for.

    Sums to v(all) - v(none); a turn that never changes anything gets 0; turns that can stand for each other get the
    same; linear in v. Source: Shapley 1953.
    Raises: CreditError above 16 turns: take `sampled_shapley_values`.
    """
    if turns > MAX_EXACT_TURNS:
        raise CreditError(
            f"Exact Shapley values of {turns} turns need {2**turns} replays; up to {MAX_EXACT_TURNS} turns are taken. "
            "Use sampled_shapley_values."
        )
    found = np.zeros(turns)
    known = np.array([value(frozenset(k for k in range(turns) if mask >> k & 1)) for mask in range(2**turns)])
    masks = np.arange(2**turns)
    sizes = np.array([mask.bit_count() for mask in range(2**turns)])
    weights = np.array([1 / (turns * math.comb(turns - 1, size)) for size in range(turns)])
    for k in range(turns):
        without = masks[(masks >> k) & 1 == 0]
        found[k] = np.sum(weights[sizes[without]] * (known[without | 1 << k] - known[without]))
    return found


def sampled_shapley_values(value: Value, turns: int, *, orders: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """[K] Shapley values estimated from random orders, and the standard error of each.

    Orders come in pairs, each with its reverse: where a turn adds much early it adds little late, so
    the errors of a pair partly cancel. The error is that of the mean over pairs, which are independent.

    Args:
        orders: even and at least 4, else there is no error to tell. At most orders * K values are asked
            for, each set of turns once.
    Raises: CreditError.
    """
    if orders < 4 or orders % 2:
        raise CreditError(f"orders is {orders}: give an even number from 4 up, since they come in pairs.")
    known: dict[Turns, float] = {}

    def ask(played: Turns) -> float:
        if played not in known:
            known[played] = value(played)
        return known[played]

    pairs = np.zeros((orders // 2, turns))
    for pair in pairs:
        order = [int(k) for k in rng.permutation(turns)]
        for one in (order, order[::-1]):
            played: Turns = frozenset()
            before = ask(played)
            for k in one:
                played = played | {k}
                after = ask(played)
                pair[k] += (after - before) / 2
                before = after
    return pairs.mean(axis=0), pairs.std(axis=0, ddof=1) / math.sqrt(len(pairs))


def shapley_of_known(known: Mapping[Turns, float], turns: int) -> Array:
    """[K] Shapley values from the values of some sets of turns; exact if all 2^K are there.

    For each turn and each number of turns before it: the mean of what it added, over the sets for which
    both values are known; then the mean over those numbers. With random sets this estimates the Shapley
    value; the sum need not be v(all) - v(none).
    Raises: CreditError naming a turn that is in no such pair of sets.
    """
    total, count = np.zeros((turns, turns)), np.zeros((turns, turns))
    for played, before in known.items():
        for k in range(turns):
            after = known.get(played | {k})
            if k not in played and after is not None:
                total[k, len(played)] += after - before
                count[k, len(played)] += 1
    for unknown in np.flatnonzero(count.sum(axis=1) == 0):
        raise CreditError(
            f"nothing tells what turn {unknown} adds: give the value of some turns without it and with it."
        )
    means = np.divide(total, count, out=np.zeros(total.shape), where=count > 0)
    found: Array = means.sum(axis=1) / (count > 0).sum(axis=1)
    return found
