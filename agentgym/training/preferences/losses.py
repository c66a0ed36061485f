"""Losses on the scores of a few rows: [R] weighted log-probabilities, with and without gradient.

Tokens that the agent did not write have the weight 0 in a score (see `ScoredRow`), so that none of these losses has a
gradient there. TRL's DPOTrainer and KTOTrainer count every token after the prompt, results of tools too: their
collators make the mask from lengths alone. That is why these are here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn.functional import logsigmoid


class RowsLoss(Protocol):
    """The loss of one group of rows.

    Attributes:
        baseline_row: which row of every group is only there for `baseline`: the mean over the batch of its score less
            the reference's, not below 0. None for a loss without.
    """

    @property
    def baseline_row(self) -> int | None: ...

    def __call__(
        self, scores: torch.Tensor, reference: torch.Tensor, values: torch.Tensor, baseline: float
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """Return the loss, a scalar, and metrics.

        Args:
            scores: [R] under the policy. `reference`: [R] likewise, of the reference model.
            values: [R] what the group's rows are worth; its meaning is the loss's.
        """
        ...


@dataclass(frozen=True)
class PairLoss:
    """-log sigmoid(beta ((s_c - ref_c) - (s_r - ref_r))) - imitation_weight s_c / n_c, where row 0 is the chosen one.

    n_c, in `values[0]`, is the weight of all of its tokens together. DPO alone may make both rows less likely.

    With weights of 1 on every turn it is DPO; with those of `dmpo_weights` it is DMPO; with 1 on a segment of equally
    many turns and 0 elsewhere it is SDPO; with 1 on one turn after an equal history it is DPO by turn.

    Source: Rafailov et al. 2023, arXiv:2305.18290, eq. 7; Shi et al. 2024, arXiv:2406.14868 (DMPO); Kong et al. 2025,
    arXiv:2501.01821 (SDPO); Zhou et al. 2025, arXiv:2503.15478 (by turn); Pang et al. 2024, arXiv:2404.19733, eq. 1
    (the imitation of the chosen one).
    """

    beta: float = 0.1
    imitation_weight: float = 0.0
    baseline_row: int | None = None

    def __call__(
        self, scores: torch.Tensor, reference: torch.Tensor, values: torch.Tensor, baseline: float
    ) -> tuple[torch.Tensor, dict[str, float]]:
        gains = self.beta * (scores - reference)
        difference = gains[0] - gains[1]
        margin = difference.detach()
        loss = -logsigmoid(difference)
        if self.imitation_weight:
            loss = loss - self.imitation_weight * scores[0] / values[0]
        return loss, {"margin": margin.item(), "accuracy": float(margin > 0)}


@dataclass(frozen=True)
class KtoLoss:
    """weight - weight sigmoid(+-(beta (s - ref) - beta z)) of row 0, which is good where `values[0]` is above 0.

    A good row's `values[0]` is how many tokens it has: imitation_weight times the mean of their log-probabilities is
    added, as to PairLoss, which is not of the paper.

    z, the baseline, estimates how far the policy is from the reference: row 1 is the continuation of another episode
    behind the prompt of this one. Source: Ethayarajh et al. 2024, arXiv:2402.01306, section 4.1.
    """

    beta: float = 0.1
    desirable_weight: float = 1.0
    undesirable_weight: float = 1.0
    imitation_weight: float = 0.0
    baseline_row: int | None = 1

    def __call__(
        self, scores: torch.Tensor, reference: torch.Tensor, values: torch.Tensor, baseline: float
    ) -> tuple[torch.Tensor, dict[str, float]]:
        gain = self.beta * (scores[0] - reference[0] - baseline)
        is_good = bool(values[0] > 0)
        weight = self.desirable_weight if is_good else self.undesirable_weight
        loss = weight * (1 - torch.sigmoid(gain if is_good else -gain))
        if is_good and self.imitation_weight:
            loss = loss - self.imitation_weight * scores[0] / values[0]
        return loss, {"baseline": baseline, "gain_good" if is_good else "gain_bad": float(gain.detach())}


@dataclass(frozen=True)
class RankLoss:
    """Sum over pairs with values_i < values_j of max(0, s_i - s_j), less imitation_weight times the best one's score.

    A score is the mean log-probability of a row's own tokens. Source: RRHF, Yuan et al. 2023, arXiv:2304.05302, section
    2, and its released code, in which the imitation counts a mean over the tokens, too. There the pairs have the weight
    100 beside it, here `imitation_weight` says it the other way round, and padding counts in that mean.
    """

    imitation_weight: float = 1.0
    baseline_row: int | None = None

    def __call__(
        self, scores: torch.Tensor, reference: torch.Tensor, values: torch.Tensor, baseline: float
    ) -> tuple[torch.Tensor, dict[str, float]]:
        is_worse = values[:, None] < values[None, :]
        excess = (scores[:, None] - scores[None, :]).clamp(min=0)[is_worse]
        loss = excess.sum() - self.imitation_weight * scores[values.argmax()]
        return loss, {"misordered": float((excess > 0).float().mean()) if len(excess) else 0.0}


def dmpo_weights(turns: int, gamma: float) -> Sequence[float]:
    """[T] gamma^t (1 - gamma^(T - t)) / (1 - gamma^T) of turn t from 0; (T - t) / T where gamma is 1.

    Source: DMPO, Shi et al. 2024, arXiv:2406.14868, and its released code.
    """
    if gamma == 1.0:
        return [(turns - turn) / turns for turn in range(turns)]
    return [gamma**turn * (1 - gamma ** (turns - turn)) / (1 - gamma**turns) for turn in range(turns)]
