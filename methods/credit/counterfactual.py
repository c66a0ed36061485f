"""Computes credit of turns from returns of the episode when it is replayed with only some of its turns.

`value` maps a set of turns to the return of the episode replayed with only those turns. If later turns fail because an
earlier one was left out, the value is the return that follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from agentgym import CreditError, MissingSignalError
from agentgym.credit import Array, Group

Coalition = frozenset[int]
Value = Callable[[Coalition], float]
MAX_EXACT_TURNS = 16


def turn_credit(group: Group, credit_of: Callable[[Mapping[Coalition, float], int], Array]) -> Array:
    """Apply `credit_of` to each trajectory's counterfactuals and number of turns. Returns: [N, T], 0 for padding.

    Raises: MissingSignalError naming the trajectory and the set of turns whose value is missing; CreditError of
        `credit_of`, prefixed with the trajectory.
    """
    counterfactuals = group.signal("counterfactuals")
    credit = np.zeros(group.turn_mask.shape)
    for i, count in enumerate(group.turns):
        try:
            credit[i, :count] = credit_of(counterfactuals[i], int(count))
        except KeyError as error:
            raise MissingSignalError(
                f"counterfactuals of the {i}th valid trajectory lacks the turns {sorted(error.args[0])}. Give the "
                f"return with all {count} turns played, and the return with each single turn left out."
            ) from error
        except CreditError as error:
            raise CreditError(f"counterfactuals of the {i}th valid trajectory cannot be used: {error}") from error
    return credit


def leave_one_out_values(value: Value, turns: int) -> Array:
    """Return [K] v(all) - v(all but k): how much less the return is without each turn. Needs K + 1 values.

    The values do not sum to the return: if either of two turns suffices, both get 0.
    """
    all_turns = frozenset(range(turns))
    full_value = value(all_turns)
    return np.array([full_value - value(all_turns - {k}) for k in range(turns)], np.float64)


def shapley_values(value: Value, turns: int) -> Array:
    """Return [K] what each turn adds to the turns before it, averaged over all orders of the turns. Needs 2^K values.

    They sum to v(all) - v(none), and are linear in v. A turn that never changes anything gets 0; interchangeable turns
    get the same. Source: Shapley 1953.
    Raises: CreditError above 16 turns; use `sampled_shapley_values`.
    """
    if turns > MAX_EXACT_TURNS:
        raise CreditError(
            f"Exact Shapley values of {turns} turns would need {2**turns} replays, and at most {MAX_EXACT_TURNS} "
            "turns are allowed. Use sampled_shapley_values."
        )
    shapley = np.zeros(turns)
    values = np.array([value(frozenset(k for k in range(turns) if mask >> k & 1)) for mask in range(2**turns)])
    masks = np.arange(2**turns)
    sizes = np.array([mask.bit_count() for mask in range(2**turns)])
    weights = np.array([1 / (turns * math.comb(turns - 1, size)) for size in range(turns)])
    for k in range(turns):
        without = masks[(masks >> k) & 1 == 0]
        shapley[k] = np.sum(weights[sizes[without]] * (values[without | 1 << k] - values[without]))
    return shapley


def sampled_shapley_values(value: Value, turns: int, *, orders: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return [K] Shapley values estimated from random orders, and the standard error of each.

    Orders are drawn in pairs, each an order and its reverse. A turn that adds much early in an order adds little late
    in its reverse, so the errors of a pair partly cancel. The standard error comes from the means of pairs, which are
    independent.

    Args:
        orders: number of orders, even and at least 4 (fewer give no standard error). At most orders * K different
            values are needed.
    Raises: CreditError.
    """
    if orders < 4 or orders % 2:
        raise CreditError(
            f"orders = {orders} is not valid: orders come in pairs, so give an even number of at least 4."
        )
    values: dict[Coalition, float] = {}

    def cached_value(coalition: Coalition) -> float:
        if coalition not in values:
            values[coalition] = value(coalition)
        return values[coalition]

    pairs = np.zeros((orders // 2, turns))
    for pair in pairs:
        order = [int(k) for k in rng.permutation(turns)]
        for sequence in (order, order[::-1]):
            coalition: Coalition = frozenset()
            before = cached_value(coalition)
            for k in sequence:
                coalition = coalition | {k}
                after = cached_value(coalition)
                pair[k] += (after - before) / 2
                before = after
    return pairs.mean(axis=0), pairs.std(axis=0, ddof=1) / math.sqrt(len(pairs))


def shapley_of_known(values: Mapping[Coalition, float], turns: int) -> Array:
    """Return [K] Shapley values from the values of some sets of turns; exact if all 2^K values are given.

    For each turn and coalition size: the mean of what the turn adds, over the coalitions for which both values are
    known; then the mean over the sizes. With random coalitions this estimates the Shapley values; the estimates need
    not sum to v(all) - v(none).
    Raises: CreditError naming a turn for which no such pair of values is known.
    """
    total, count = np.zeros((turns, turns)), np.zeros((turns, turns))
    for coalition, before in values.items():
        for k in range(turns):
            after = values.get(coalition | {k})
            if k not in coalition and after is not None:
                total[k, len(coalition)] += after - before
                count[k, len(coalition)] += 1
    for unknown in np.flatnonzero(count.sum(axis=1) == 0):
        raise CreditError(
            f"the values do not show what turn {unknown} adds: give the value of some set of turns both with and "
            "without it."
        )
    means = np.divide(total, count, out=np.zeros(total.shape), where=count > 0)
    shapley: Array = means.sum(axis=1) / (count > 0).sum(axis=1)
    return shapley
