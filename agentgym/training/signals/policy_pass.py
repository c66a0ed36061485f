"""What the policy being trained says of the turns it is trained on: log-ratios, entropies, lengths of scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from agentgym.errors import AgentGymError
from agentgym.training.signals.provider import Rows
from agentgym.trajectory import Trajectory

PROVIDES = ("log_ratios", "entropies", "score_norms")


@dataclass(frozen=True, slots=True)
class PolicyPass:
    """Of each token of TRL's batch, shape (B, T): `logps` under the policy being trained, at the sampling temperature,
    and `entropies` of its distribution there, in nats; `norms`, where asked for, the squared length of the score by
    the last layer's logits, 1 - 2 pi + sum pi^2, between 0 and 2."""

    logps: torch.Tensor
    entropies: torch.Tensor
    norms: torch.Tensor | None = None

    def signals(self, batch: Mapping[str, Any], played: Sequence[Trajectory]) -> dict[str, Rows]:
        """`entropies` and `score_norms` of every turn, and `log_ratios` of its tokens where the batch has what they
        were sampled with."""
        means = self.entropies.float().cpu().numpy()

        def mean(row: int, start: int, end: int) -> float:
            return float(means[row, start:end].mean()) if end > start else 0.0

        found = {"entropies": _rows(played, mean, 0.0)}
        if self.norms is not None:
            norms = self.norms.double().cpu().numpy()
            found["score_norms"] = _rows(played, lambda row, start, end: float(norms[row, start:end].sum()), 0.0)
        if "sampling_per_token_logps" in batch:
            gap = (self.logps - batch["sampling_per_token_logps"]).double().cpu().numpy()
            ratios = np.nan_to_num(gap, nan=0.0)  # a token whose log-probability was not recorded corrects nothing
            found["log_ratios"] = _rows(played, lambda row, start, end: ratios[row, start:end], [])
        return found


def policy_pass(trainer: Any, batch: Mapping[str, torch.Tensor], *, norms: bool = False) -> PolicyPass:
    """A forward pass of the trainer's model over its batch, without gradient; with `norms`, a second one.

    Raises: AgentGymError if TRL moved.
    """
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
        lengths = _score_norms(trainer, ids, mask, batch["completion_ids"].size(1), rows) if norms else None
    return PolicyPass(logps, entropies, lengths)


def _score_norms(trainer: Any, ids: torch.Tensor, mask: torch.Tensor, kept: int, rows: int) -> torch.Tensor:
    """(B, kept) 1 - 2 pi + sum pi^2 of the last `kept` tokens; TRL's own pass gives no sum of squares."""
    found = []
    for start in range(0, len(ids), rows):
        some, seen = ids[start : start + rows], mask[start : start + rows]
        with trainer.accelerator.autocast(), trainer.seeing(trainer.model, some, slice(start, start + rows)) as beside:
            logits = trainer.model(input_ids=some, attention_mask=seen, **beside).logits[:, -kept - 1 : -1]
        chances = torch.softmax(logits.float() / trainer.temperature, dim=-1)
        own = chances.gather(-1, some[:, -kept:, None]).squeeze(-1)
        found.append(1 - 2 * own + chances.square().sum(-1))
    return torch.cat(found)


def _rows(played: Sequence[Trajectory], read: Callable[[int, int, int], Any], nothing: Any) -> Rows:
    """What `read(row, start, end)` says of every turn; `nothing` for those of a trajectory that is not valid."""
    return [
        [read(row, start, end) for start, end in t.turn_spans()] if t.valid else [nothing] * len(t.turns)
        for row, t in enumerate(played)
    ]
