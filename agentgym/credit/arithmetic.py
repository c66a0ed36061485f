"""The arithmetic that estimators share: numpy on the arrays of a group, in reward units.

Use it as a module: `from agentgym.credit import arithmetic`, then `arithmetic.returns_to_go(group)`. In order: returns
of episodes and turns; means and standard deviations over the trajectories of a group, over turns that carry one label,
and over all turns of a batch; a critic's values before each turn, and generalised advantage estimates.

Functions of scores take [N] or [N, T]: rows are trajectories, columns are turn indices. `mask`, a bool array of the
same shape, is True for the entries that count; None if all do. Statistics are over trajectories, never over tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from agentgym.credit.group import Group
from agentgym.credit.options import Baseline, Scale
from agentgym.credit.signals import Array, Bools, Labels
from agentgym.errors import CreditError

SMALLEST_STD = 1e-8
SMALLEST_RELATIVE_STD = 1e-6
STD_EPSILON = 1e-6


def rewards_or_zero(group: Group) -> Array:
    """Return [N, T] the turn rewards, 0 for turns without a reward and for padding. Use the result only in sums."""
    if group.turn_rewards is None:
        return np.zeros(group.turn_mask.shape)
    return np.where(np.isnan(group.turn_rewards), 0.0, group.turn_rewards)


def episode_returns(group: Group, *, outcome_weight: float = 1.0, turn_weight: float = 1.0) -> Array:
    """Return [N] R_i = outcome_weight * o_i + turn_weight * sum_k r_ik."""
    outcomes: Array = group.signal("outcomes")
    rewards: Array = rewards_or_zero(group).sum(axis=1)
    return turn_weight * rewards + outcome_weight * outcomes


def returns_to_go(group: Group, *, gamma: float = 1.0, outcome_weight: float = 1.0, turn_weight: float = 1.0) -> Array:
    """Return [N, T] the return from each turn on: G_ik = sum_{l>=k} gamma^(l-k) r_il + gamma^(K_i-k) o_i.

    The last turn (k = K_i) gets the outcome undiscounted. Padding after the last turn holds the outcome: a
    trajectory that has ended has no further turn reward, but its outcome is still to come.
    """
    outcomes = outcome_weight * group.signal("outcomes")
    rewards = turn_weight * rewards_or_zero(group)
    to_go = np.empty(rewards.shape)
    following = outcomes
    for k in reversed(range(rewards.shape[1])):
        later = np.where(k == group.turns - 1, outcomes, gamma * following)
        following = np.where(k < group.turns, rewards[:, k] + later, outcomes)
        to_go[:, k] = following
    return to_go


def discounted_sums(terms: Array, decay: float) -> Array:
    """Return for each term, along the last axis, the term plus `decay` times the next result; shape of `terms`."""
    sums, following = np.empty(terms.shape), np.zeros(terms.shape[:-1])
    for k in reversed(range(terms.shape[-1])):
        following = terms[..., k] + decay * following
        sums[..., k] = following
    return sums


def broadcast_to_turns(group: Group, per_trajectory: Array) -> Array:
    """Expand [N] to [N, T]: every turn of a trajectory gets the trajectory's number."""
    return np.broadcast_to(per_trajectory[:, None], group.turn_mask.shape)


def baseline_of(scores: Array, baseline: Baseline, mask: Bools | None = None) -> Array:
    """Return the mean of each column over the rows in `mask`: the *other* rows for "loo", all rows for "mean".

    Returns: the shape of `scores`; NaN where no row counts.
    """
    low, above, mask = _above_least(scores, mask)
    mean: Array = low + _mean(above, baseline, mask)
    return mean


def centred(scores: Array, baseline: Baseline, mask: Bools | None = None) -> Array:
    """Return the scores minus their `baseline_of`, without losing precision to a large common offset.

    Returns: an array shaped like `scores`: NaN without a baseline, undefined outside `mask`. Equal
    scores give exactly 0, although in floating point (0.1 + 0.1 + 0.1) / 3 is not 0.1.
    """
    _, above, mask = _above_least(scores, mask)
    return above - _mean(above, baseline, mask)


def stable_std(scores: Array, *, ddof: int, mask: Bools | None = None) -> Array:
    """Return the standard deviation of each column over the rows in `mask`; exactly 0 if they hardly differ.

    "Hardly" means by at most 1e-8, or at most 1e-6 of the largest absolute score: that is rounding, and dividing by it
    would turn noise into an advantage. With fewer than ddof + 1 rows the standard deviation is 0.
    Returns: the shape of `scores` without its first axis.
    """
    if mask is None:
        mask = np.ones(scores.shape, np.bool_)
    deviation = np.where(mask, centred(scores, "mean", mask), 0.0)
    count = mask.sum(axis=0)
    std = np.sqrt((deviation**2).sum(axis=0) / np.maximum(count - ddof, 1))
    largest = np.abs(np.where(mask, scores, 0.0)).max(axis=0, initial=0.0)
    differs = (std > SMALLEST_STD) & (std > SMALLEST_RELATIVE_STD * largest) & (count > ddof)
    return np.where(differs, std, 0.0)


def divide_by_std(differences: Array, std: Array) -> Array:
    """Return the differences over a standard deviation plus 1e-6; 0 where the standard deviation is 0."""
    return np.where(std > 0, differences / (std + STD_EPSILON), 0.0)


def standardised(scores: Array, *, baseline: Baseline, ddof: int, mask: Bools | None = None) -> Array:
    """Return (score - baseline) / standard deviation per column; 0 outside `mask` and where nothing differs."""
    differences = np.nan_to_num(centred(scores, baseline, mask))
    result = divide_by_std(differences, stable_std(scores, ddof=ddof, mask=mask))
    return result if mask is None else np.where(mask, result, 0.0)


def normalise_columns(scores: Array, mask: Bools, *, baseline: Baseline, scale: Scale, ddof: int) -> Array:
    """Subtract the baseline of each column and, with scale "std", divide by its standard deviation.

    Returns: the shape of `scores`; 0 outside `mask`, in columns without another row that counts, and in columns of
        equal scores.
    """
    if scale == "std":
        return standardised(scores, baseline=baseline, ddof=ddof, mask=mask)
    return np.where(mask, np.nan_to_num(centred(scores, baseline, mask)), 0.0)


def subtract_index_baseline(turn_returns: Array, returns: Array, reached: Bools, baseline: Baseline) -> Array:
    """Return [N, T] the turn returns minus the baseline of their turn index; 0 where `reached` is False.

    At an index reached by a single trajectory, the baseline of the episode returns is used.

    Args:
        turn_returns: [N, T].
        returns: [N], of whole episodes.
        reached: [N, T], False where padding.
    """
    reached_by_one = reached.sum(axis=0) == 1
    above_returns = turn_returns - baseline_of(returns, baseline)[:, None]
    return np.where(reached, np.where(reached_by_one, above_returns, centred(turn_returns, baseline, reached)), 0.0)


def _above_least(scores: Array, mask: Bools | None) -> tuple[Array, Array, Bools]:
    """Return each column's lowest score, how far each row in `mask` exceeds it (0 for other rows), and `mask`."""
    if mask is None:
        mask = np.ones(scores.shape, np.bool_)
    low = np.where(mask, scores, np.inf).min(axis=0, initial=np.inf)
    low = np.where(np.isfinite(low), low, 0.0)
    return low, np.where(mask, scores - low, 0.0), mask


def _mean(above: Array, baseline: Baseline, mask: Bools) -> Array:
    own_total, own_count = (above, mask) if baseline == "loo" else (0.0, 0)
    count, total = mask.sum(axis=0) - own_count, above.sum(axis=0) - own_total
    mean: Array = np.divide(total, count, out=np.full(above.shape, np.nan), where=count > 0)
    return mean


@dataclass(frozen=True, slots=True)
class LabelGroups:
    """The S turns of a group by label. Every array has one entry per turn, in the order of trajectories and turns.

    Attributes:
        label_index: [S] the index of each turn's label; every turn labelled None has its own index.
        trajectory_index: [S] the trajectory of each turn.
        size: N, the number of trajectories.
    """

    label_index: NDArray[np.int64]
    trajectory_index: NDArray[np.int64]
    size: int

    def count(self, baseline: Baseline) -> NDArray[np.int64]:
        """Return [S] the number of turns with the same label, in other trajectories ("loo") or in all ("mean")."""
        count: NDArray[np.int64] = np.bincount(self.label_index)[self.label_index]
        return count - np.bincount(self._cell)[self._cell] if baseline == "loo" else count

    def centred(self, scores: Array, baseline: Baseline) -> Array:
        """Return [S] the scores minus the mean score of the turns counted by `count`; NaN if there are none.

        Equal scores give exactly 0, see the function `centred`.
        """
        above = scores - self._lowest(scores)
        total = np.bincount(self.label_index, above)[self.label_index]
        if baseline == "loo":
            total = total - np.bincount(self._cell, above)[self._cell]
        count = self.count(baseline)
        mean: Array = np.divide(total, count, out=np.full(len(scores), np.nan), where=count > 0)
        return above - mean

    def stable_std(self, scores: Array, *, ddof: int) -> Array:
        """Return [S] the standard deviation of the scores with the same label; exactly 0 if they hardly differ."""
        square = np.bincount(self.label_index, self.centred(scores, "mean") ** 2)[self.label_index]
        count = self.count("mean")
        std = np.sqrt(square / np.maximum(count - ddof, 1))
        largest = -self._lowest(-np.abs(scores))
        return np.where((std > SMALLEST_STD) & (std > SMALLEST_RELATIVE_STD * largest) & (count > ddof), std, 0.0)

    def after(self, before: LabelGroups) -> LabelGroups:
        """Group the turns that have the same label here and whose previous turns have the same label in `before`.

        The first turn of a trajectory has no previous turn, so each first turn is its own group.
        """
        joined = np.arange(len(self.label_index)) - len(self.label_index)  # negative numbers equal no label
        follows = np.flatnonzero(self.trajectory_index[1:] == self.trajectory_index[:-1]) + 1
        joined[follows] = before.label_index[follows - 1] * len(self.label_index) + self.label_index[follows]
        return LabelGroups(np.unique(joined, return_inverse=True)[1], self.trajectory_index, self.size)

    @property
    def _cell(self) -> NDArray[np.int64]:
        """[S] index of the pair of label and trajectory."""
        return self.label_index * self.size + self.trajectory_index

    def _lowest(self, scores: Array) -> Array:
        """Return [S] the lowest score with the same label."""
        lowest = np.full(int(self.label_index.max(initial=-1)) + 1, np.inf)
        np.minimum.at(lowest, self.label_index, scores)
        return lowest[self.label_index]


def group_by_label(labels: Labels) -> LabelGroups:
    """Return the turns by label. None equals no other label, not even another None."""
    indices: dict[Hashable, int] = {}
    label_index = [
        indices.setdefault(object() if label is None else label, len(indices)) for row in labels for label in row
    ]
    trajectory_index = np.repeat(np.arange(len(labels)), [len(row) for row in labels])
    return LabelGroups(np.array(label_index, np.int64), trajectory_index, len(labels))


Weigh = Literal["trajectories", "turns", "tokens"]
"""What has weight 1 in a mean and standard deviation: a trajectory (shared by its turns), a turn, or a token."""


def averaging_weights(group: Group, weigh: Weigh) -> Array:
    """Return [N, T] the weight of each turn in a mean; 0 where padding. Raises: MissingSignalError for tokens."""
    if weigh == "trajectories":
        return np.where(group.turn_mask, 1.0 / np.maximum(group.turns, 1)[:, None], 0.0)
    if weigh == "turns":
        return group.turn_mask.astype(np.float64)
    return np.where(group.turn_mask, group.signal("lengths"), 0.0)


def whitened(scores: Sequence[Array], groups: Sequence[Group], *, weigh: Weigh) -> list[Array]:
    """Return (score - mean) / std, with one weighted mean and std over all turns of all groups; equal scores give 0.

    Args:
        scores: [N, T] for each group.
        weigh: see `Weigh`.
    """
    weights = [averaging_weights(group, weigh) for group in groups]
    flat = np.concatenate([values[group.turn_mask] for values, group in zip(scores, groups, strict=True)])
    weight = np.concatenate([values[group.turn_mask] for values, group in zip(weights, groups, strict=True)])
    total = weight.sum()
    if total == 0:
        return [np.zeros(values.shape) for values in scores]
    low = flat.min()  # subtracted first, so that equal scores have a standard deviation of exactly 0
    mean = (weight * (flat - low)).sum() / total
    std = float(np.sqrt((weight * (flat - low - mean) ** 2).sum() / total))
    if std <= max(SMALLEST_STD, SMALLEST_RELATIVE_STD * float(np.abs(flat).max())):
        return [np.zeros(values.shape) for values in scores]
    return [
        np.where(group.turn_mask, (values - low - mean) / (std + STD_EPSILON), 0.0)
        for values, group in zip(scores, groups, strict=True)
    ]


Truncated = Literal["scored", "bootstrap"]
"""The value after the last turn of a truncated episode: 0 ("scored" as it is), or the critic's prediction."""


def values_before(group: Group, field: str, values: Array) -> Array:
    """Return [N, T] the predictions before each turn, 0 where padding.

    Raises: CreditError naming trajectory and turn if a prediction is missing.
    """
    mask = group.turn_mask
    missing = np.argwhere(np.isnan(values) & mask)
    if len(missing):
        i, k = (int(x) for x in missing[0])
        raise CreditError(
            f"{field} of the {i}th valid trajectory is missing for turn {k}: a critic must give a value before "
            "every turn."
        )
    return np.where(mask, values, 0.0)


def value_after_last(group: Group, truncated: Truncated) -> Array:
    """Return [N] the value after the last turn: 0, or for a truncated trajectory with "bootstrap" the prediction.

    Raises: CreditError naming the truncated trajectory whose prediction is missing.
    """
    if truncated == "scored" or not group.truncated.any():
        return np.zeros(group.size)
    values: Array = group.signal("values")
    after = values[np.arange(group.size), group.turns]
    missing = np.flatnonzero(np.isnan(after) & group.truncated)
    if len(missing):
        raise CreditError(
            f"The values of the {missing[0]}th valid trajectory lack the one after its last turn, which is needed "
            "because it was truncated. Give one value more than turns, or set truncated='scored'."
        )
    return np.where(group.truncated, after, 0.0)


def turn_advantages(
    group: Group,
    values: Array,
    *,
    gamma: float,
    lam: float,
    truncated: Truncated,
    outcome_weight: float,
    turn_weight: float,
) -> Array:
    """Return [N, T] A_k = d_k + gamma lam A_k+1 with d_k = r_k + gamma V_k+1 - V_k; 0 where padding.

    Args:
        values: [N, T] before each turn, 0 where padding. The outcome is part of the last turn's reward.
    Raises: CreditError where a value to bootstrap from is missing.
    Source: Schulman et al. 2016, arXiv:1506.02438, eq. 16, with the turn as the step.
    """
    rows, last = np.arange(group.size), group.turns - 1
    rewards = turn_weight * rewards_or_zero(group)
    following = np.zeros(rewards.shape)
    following[:, :-1] = values[:, 1:]
    following[rows, last] = value_after_last(group, truncated)
    td_errors = rewards + gamma * following - values
    td_errors[rows, last] += outcome_weight * group.signal("outcomes")
    td_errors[~group.turn_mask] = 0.0
    return discounted_sums(td_errors, gamma * lam)


def singleton_share(groups: Sequence[Group]) -> float:
    """Return the share of turns in a state that no other valid trajectory of the group visited; NaN without state keys.

    Args:
        groups: groups of trajectories. NaN is also returned if any group has no state keys.
    """
    turns, singletons = 0, 0
    for group in groups:
        if group.state_keys is None:
            return float("nan")
        rows = [group.state_keys[int(row)] for row in np.flatnonzero(group.valid)]
        visits = Counter(key for row in rows for key in set(row))
        turns += sum(len(row) for row in rows)
        singletons += sum(visits[key] == 1 for row in rows for key in row)
    return singletons / turns if turns else float("nan")
