"""Signals from the policy being trained: log-ratios, entropies and score norms of the turns it is trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from agentgym.errors import AgentGymError
from agentgym.training.signals.provider import Rows
from agentgym.trajectory import Trajectory

PROVIDES = ("log_ratios", "entropies", "token_entropies", "score_norms")


@dataclass(frozen=True, slots=True)
class PolicyPass:
    """Results of a forward pass over TRL's batch, each of shape (B, T).

    Attributes:
        logps: log-probability of each token under the policy being trained, at the sampling temperature.
        entropies: of the distribution at each token, in nats.
        norms: squared norm of the score with respect to the logits, 1 - 2 pi + sum pi^2, between 0 and 2; None if not
            requested.
    """

    logps: torch.Tensor
    entropies: torch.Tensor
    norms: torch.Tensor | None = None

    def signals(self, batch: Mapping[str, Any], trajectories: Sequence[Trajectory]) -> dict[str, Rows]:
        """Return `entropies` and `score_norms` of every turn, `token_entropies` of its tokens, and their `log_ratios`
        if the batch has their sampling log-probabilities."""
        means = self.entropies.float().cpu().numpy()

        def mean(row: int, start: int, end: int) -> float:
            return float(means[row, start:end].mean()) if end > start else 0.0

        of_tokens = means.astype(np.float64)
        signals = {
            "entropies": _rows(trajectories, mean, 0.0),
            "token_entropies": _rows(trajectories, lambda row, start, end: of_tokens[row, start:end], []),
        }
        if self.norms is not None:
            norms = self.norms.double().cpu().numpy()
            signals["score_norms"] = _rows(
                trajectories, lambda row, start, end: float(norms[row, start:end].sum()), 0.0
            )
        if "sampling_per_token_logps" in batch:
            differences = (self.logps - batch["sampling_per_token_logps"]).double().cpu().numpy()
            ratios = np.nan_to_num(differences, nan=0.0)  # no correction where no log-probability was recorded
            signals["log_ratios"] = _rows(trajectories, lambda row, start, end: ratios[row, start:end], [])
        return signals


def policy_pass(trainer: Any, batch: Mapping[str, torch.Tensor], *, norms: bool = False) -> PolicyPass:
    """Run the trainer's model over its batch, without gradient; with `norms`, twice.

    Raises: AgentGymError if TRL has moved the method that this calls.
    """
    forward = getattr(trainer, "_get_per_token_logps_and_entropies", None)
    if forward is None:
        raise AgentGymError(
            "TRL's GRPOTrainer._get_per_token_logps_and_entropies has moved: agentgym is built on trl 1.16. Install "
            "trl>=1.16,<1.17, or choose an estimator that needs neither log_ratios nor entropies."
        )
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    rows = trainer.args.per_device_train_batch_size
    with torch.no_grad():
        logps, entropies, _ = forward(
            trainer.model, ids, mask, batch["completion_ids"].size(1), batch_size=rows, compute_entropy=True
        )
        score_norms = _score_norms(trainer, ids, mask, batch["completion_ids"].size(1), rows) if norms else None
    return PolicyPass(logps, entropies, score_norms)


def _score_norms(trainer: Any, ids: torch.Tensor, mask: torch.Tensor, width: int, rows: int) -> torch.Tensor:
    """(B, kept) 1 - 2 pi + sum pi^2 of the last `kept` tokens; TRL's own pass returns no sum of squares."""
    norms = []
    for start in range(0, len(ids), rows):
        id_rows, mask_rows = ids[start : start + rows], mask[start : start + rows]
        with (
            trainer.accelerator.autocast(),
            trainer.vision_kwargs(trainer.model, id_rows, slice(start, start + rows)) as model_kwargs,
        ):
            logits = trainer.model(input_ids=id_rows, attention_mask=mask_rows, **model_kwargs).logits[
                :, -width - 1 : -1
            ]
        probabilities = torch.softmax(logits.float() / trainer.temperature, dim=-1)
        token_probabilities = probabilities.gather(-1, id_rows[:, -width:, None]).squeeze(-1)
        norms.append(1 - 2 * token_probabilities + probabilities.square().sum(-1))
    return torch.cat(norms)


def _rows(trajectories: Sequence[Trajectory], read: Callable[[int, int, int], Any], nothing: Any) -> Rows:
    """Return `read(row, start, end)` of every turn; `nothing` for the turns of invalid trajectories."""
    return [
        [read(row, start, end) for start, end in t.turn_spans()] if t.valid else [nothing] * len(t.turns)
        for row, t in enumerate(trajectories)
    ]
