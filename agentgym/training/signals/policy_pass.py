"""Signals from the trained policy: log-ratios, entropies, certainties and score norms of its turns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from agentgym.errors import AgentGymError
from agentgym.training.signals.provider import SignalRows
from agentgym.trajectory.record import Trajectory


def _score_norms(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return the squared norm of the score w.r.t. the logits, 1 - 2 pi + sum pi^2, between 0 and 2, [b, width]."""
    probabilities = torch.softmax(logits, dim=-1)
    token_probabilities = probabilities.gather(-1, tokens[:, :, None]).squeeze(-1)
    return 1 - 2 * token_probabilities + probabilities.square().sum(-1)


def _certainties(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return KL(U || pi) = logsumexp(logits) - mean logits - log V over the V unmasked tokens, in nats, [b, width]."""
    possible = logits > torch.finfo(logits.dtype).min / 2
    count = possible.sum(-1)
    return logits.logsumexp(-1) - torch.where(possible, logits, 0.0).sum(-1) / count - count.log()


MEASURES: Mapping[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "score_norms": _score_norms,
    "token_certainties": _certainties,
}
"""Functions of logits [b, width, V] and the predicted tokens [b, width].

A recipe that needs one cannot have a logit hook.
"""
PROVIDES = ("log_ratios", "entropies", "token_entropies", *MEASURES)


@dataclass(frozen=True, slots=True)
class PolicyPass:
    """Results of a forward pass over TRL's batch, each of shape (B, T).

    Attributes:
        logps: log-probability of each token under the trained policy, at the sampling temperature.
        entropies: entropy of the distribution at each token, in nats.
        measures: the requested entries of MEASURES, by name.
    """

    logps: torch.Tensor
    entropies: torch.Tensor
    measures: Mapping[str, torch.Tensor] = field(default_factory=dict)

    def signals(self, batch: Mapping[str, Any], trajectories: Sequence[Trajectory]) -> dict[str, SignalRows]:
        """Return `entropies` of the turns, `token_entropies`, the measures by name, and, if the batch has sampling
        log-probabilities, `log_ratios` of the tokens."""
        means = self.entropies.float().cpu().numpy()

        def mean(row: int, start: int, end: int) -> float:
            return float(means[row, start:end].mean()) if end > start else 0.0

        def of_tokens(values: np.ndarray) -> SignalRows:
            return _rows(trajectories, lambda row, start, end: values[row, start:end], [])

        signals = {
            "entropies": _rows(trajectories, mean, 0.0),
            "token_entropies": of_tokens(means.astype(np.float64)),
        }
        measured = {name: values.double().cpu().numpy() for name, values in self.measures.items()}
        if (norms := measured.get("score_norms")) is not None:
            signals["score_norms"] = _rows(
                trajectories, lambda row, start, end: float(norms[row, start:end].sum()), 0.0
            )
        if (certainties := measured.get("token_certainties")) is not None:
            signals["token_certainties"] = of_tokens(certainties)
        if "sampling_per_token_logps" in batch:
            differences = (self.logps - batch["sampling_per_token_logps"]).double().cpu().numpy()
            signals["log_ratios"] = of_tokens(np.nan_to_num(differences, nan=0.0))  # unknown ones are not corrected
        return signals


def policy_pass(trainer: Any, batch: Mapping[str, torch.Tensor], *, measures: Collection[str] = ()) -> PolicyPass:
    """Run the trainer's model over its batch without gradient, a second time if `measures` are requested.

    Raises: AgentGymError if TRL has moved the method called here.
    """
    forward = getattr(trainer, "_get_per_token_logps_and_entropies", None)
    if forward is None:
        raise AgentGymError(
            "The installed TRL has no GRPOTrainer._get_per_token_logps_and_entropies, which agentgym calls: it was "
            "written for trl 1.16. Install trl>=1.16,<1.17, or choose an estimator that needs neither log_ratios nor "
            "entropies."
        )
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    rows, width = trainer.args.per_device_train_batch_size, batch["completion_ids"].size(1)
    with torch.no_grad():
        logps, entropies, _ = forward(trainer.model, ids, mask, width, batch_size=rows, compute_entropy=True)
        parts = [
            [MEASURES[name](*part) for name in measures]
            for part in (_logits_of(trainer, ids, mask, width, rows) if measures else ())
        ]
    return PolicyPass(
        logps, entropies, dict(zip(measures, map(torch.cat, zip(*parts, strict=True)), strict=bool(parts)))
    )


def _logits_of(
    trainer: Any, ids: torch.Tensor, mask: torch.Tensor, width: int, rows: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield, `rows` rows at a time, [b, width, V] logits divided by the temperature and the tokens they predict.

    TRL's own pass returns only entropies of the distributions.
    """
    for start in range(0, len(ids), rows):
        id_rows, mask_rows = ids[start : start + rows], mask[start : start + rows]
        with (
            trainer.accelerator.autocast(),
            trainer.vision_kwargs(trainer.model, id_rows, slice(start, start + rows)) as model_kwargs,
        ):
            logits = trainer.model(input_ids=id_rows, attention_mask=mask_rows, **model_kwargs).logits
        yield logits[:, -width - 1 : -1].float() / trainer.temperature, id_rows[:, -width:]


def _rows(trajectories: Sequence[Trajectory], read: Callable[[int, int, int], Any], nothing: Any) -> SignalRows:
    """Return, for every turn, `read(row, start, end)`; for the turns of invalid trajectories, `nothing`."""
    return [
        [read(row, start, end) for start, end in t.turn_spans()] if t.valid else [nothing] * len(t.turns)
        for row, t in enumerate(trajectories)
    ]
