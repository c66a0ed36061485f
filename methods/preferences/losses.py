"""Losses of a few compared rows, computed from their scores: [R] weighted log-probabilities, of the policy (with
gradient) and of the reference.

Tokens that the agent did not write have weight 0 in a score (see `ScoredRow`), so they get no gradient. TRL's
DPOTrainer and KTOTrainer cannot be used: they count every token after the prompt, including tool results, because
their collators make the mask only from lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import logsigmoid


@dataclass(frozen=True)
class PairLoss:
    """-log sigmoid(beta ((s_c - ref_c) - (s_r - ref_r))) - imitation_weight s_c / n_c, with row 0 chosen (c) and row 1
    rejected (r).

    n_c, in `values[0]`, is the total weight of row 0's tokens. Plain DPO can make both rows less likely.

    The weights of turns in a score decide the method. Weight 1 on every turn is DPO; `dmpo_weights` are DMPO; weight 1
    on segments with equally many turns, 0 elsewhere, is SDPO; weight 1 on one turn after the same history, 0 elsewhere,
    is DPO by turn.

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
    """weight - weight sigmoid(+-(beta (s - ref) - beta z)) of row 0: + if the row is good (`values[0]` above 0), - if
    it is bad.

    For a good row, `values[0]` is its number of tokens: as in PairLoss, imitation_weight times their mean
    log-probability is subtracted from the loss, which is not in the paper.

    z, the baseline, estimates the policy's KL to the reference: row 1 is another episode's completion after this
    episode's prompt. Source: Ethayarajh et al. 2024, arXiv:2402.01306, section 4.1.
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
    """Sum over pairs with values_i < values_j of max(0, s_i - s_j), minus imitation_weight times the best row's score.

    A score is the mean log-probability of a row's own tokens. Source: RRHF, Yuan et al. 2023, arXiv:2304.05302, section
    2, and its released code, where imitation is also a mean over tokens. That code weights the pairs by 100 instead of
    weighting the imitation, and counts padding in the mean.
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
    """Return [T] gamma^t (1 - gamma^(T - t)) / (1 - gamma^T) for turn t from 0; (T - t) / T if gamma is 1.

    Source: DMPO, Shi et al. 2024, arXiv:2406.14868, and its released code.
    """
    if gamma == 1.0:
        return [(turns - turn) / turns for turn in range(turns)]
    return [gamma**turn * (1 - gamma ** (turns - turn)) / (1 - gamma**turns) for turn in range(turns)]
