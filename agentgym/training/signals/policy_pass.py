"""What the policy being trained says of the turns it is trained on: log-ratios and entropies, by one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from agentgym.episode.trajectory import Trajectory
from agentgym.errors import AgentGymError
from agentgym.training.signals.source import Rows

GIVES = ("log_ratios", "entropies")


@dataclass(frozen=True, slots=True)
class PolicyPass:
    """Of each token of TRL's batch, shape (B, T): `logps` under the policy being trained, at the sampling temperature,
    and `entropies` of its distribution there, in nats."""

    logps: torch.Tensor
    entropies: torch.Tensor

    def signals(self, batch: Mapping[str, Any], played: Sequence[Trajectory]) -> dict[str, Rows]:
        """`entropies` of every turn, and `log_ratios` of its tokens where the batch has what they were sampled with."""
        means = self.entropies.float().cpu().numpy()

        def mean(row: int, start: int, end: int) -> float:
            return float(means[row, start:end].mean()) if end > start else 0.0

        found = {"entropies": _rows(played, mean, 0.0)}
        if "sampling_per_token_logps" in batch:
            gap = (self.logps - batch["sampling_per_token_logps"]).double().cpu().numpy()
            ratios = np.nan_to_num(gap, nan=0.0)  # a token whose log-probability was not recorded corrects nothing
            found["log_ratios"] = _rows(played, lambda row, start, end: ratios[row, start:end], [])
        return found


def policy_pass(trainer: Any, batch: Mapping[str, torch.Tensor]) -> PolicyPass:
    """One forward pass of the trainer's model over its batch, without gradient. Raises: AgentGymError if TRL moved."""
    method = getattr(trainer, "_get_per_token_logps_and_entropies", None)
    if method is None:
        raise AgentGymError(
            "TRL's GRPOTrainer._get_per_token_logps_and_entropies has moved: agentgym is built on trl 1.16. Install "
            "trl>=1.16,<1.17, or choose an estimator that needs neither log_ratios nor entropies."
        )
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    rows = trainer.args.per_device_train_batch_size
    with torch.no_grad():
        logps, entropies, _ = method(
            trainer.model, ids, mask, batch["completion_ids"].size(1), batch_size=rows, compute_entropy=True
        )
    return PolicyPass(logps, entropies)


def _rows(played: Sequence[Trajectory], read: Callable[[int, int, int], Any], nothing: Any) -> Rows:
    """What `read(row, start, end)` says of every turn; `nothing` for those of a trajectory that is not valid."""
    return [
        [read(row, start, end) for start, end in t.turn_spans()] if t.valid else [nothing] * len(t.turns)
        for row, t in enumerate(played)
    ]
