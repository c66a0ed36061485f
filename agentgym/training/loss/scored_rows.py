"""A row of tokens with weights on the agent's own tokens, and its weighted log-probability under a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.utils.rnn import pad_sequence
from trl.trainer.utils import add_fused_lm_head

from agentgym.policy.adapters import own_model
from agentgym.policy.separate_rows import separated
from agentgym.training.loss.labelled_head import own_forward_restored, project_labelled_only
from agentgym.training.loss.microbatches import RowSizes, parts_of
from agentgym.trajectory.record import Trajectory

_NO_LABEL = -100


@dataclass(frozen=True, slots=True)
class ScoredRow:
    """A trajectory's tokens with weights.

    Attributes:
        ids: [L] int64 token ids.
        weights: [L] float32; exactly 0 on tokens that are not the agent's own, so that these have no gradient.
        starts: the positions where the trajectory's rows begin.
    """

    ids: NDArray[np.int64]
    weights: NDArray[np.float32]
    starts: tuple[int, ...] = (0,)

    @classmethod
    def of(cls, trajectory: Trajectory, turn_weights: Sequence[float]) -> ScoredRow:
        """Return the row of a trajectory in which every own token has its turn's weight from `turn_weights` [T]."""
        arrays = trajectory.arrays()
        of_turn = np.array([*turn_weights, 0.0], np.float32)  # the last entry is for the prompt, with index -1
        weights = np.where(arrays.loss_mask, of_turn[arrays.turn_index], np.float32(0))
        return cls(arrays.ids, weights, arrays.row_starts)

    @classmethod
    def mismatched(cls, trajectory: Trajectory, prompt_ids: Sequence[int]) -> ScoredRow:
        """Return the row of a whole trajectory after another trajectory's prompt instead of its own."""
        row, start = cls.of(trajectory, [1.0] * len(trajectory.turns)), len(trajectory.prompt_ids)
        ids = np.concatenate([np.array(prompt_ids, np.int64), row.ids[start:]])
        weights = np.concatenate([np.zeros(len(prompt_ids), np.float32), row.weights[start:]])
        return cls(ids, weights, (0, *(begin - start + len(prompt_ids) for begin in row.starts[1:])))

    @classmethod
    def mean_of(cls, trajectory: Trajectory) -> ScoredRow:
        """Return the row whose score is the mean log-probability of the agent's own tokens."""
        mask = trajectory.arrays().loss_mask
        return cls.of(trajectory, [1.0 / max(int(mask.sum()), 1)] * len(trajectory.turns))


@contextmanager
def scoring_head(model: Any) -> Iterator[None]:
    """Make `scores_of` usable inside the block; on leaving, restore the model's own forward pass."""
    with own_forward_restored(model):
        add_fused_lm_head(own_model(model), outputs=("log_probs",))
        project_labelled_only(model)
        yield


def scores_of(model: Any, rows: Sequence[ScoredRow]) -> torch.Tensor:
    """Return [rows] sums over tokens of weight x log-probability, in nats, from one forward pass.

    Args:
        model: a model inside `scoring_head`, possibly wrapped by a launcher.
    """
    device = next(model.parameters()).device
    ids = pad_sequence([torch.as_tensor(row.ids) for row in rows], batch_first=True).to(device)
    weights = pad_sequence([torch.as_tensor(row.weights) for row in rows], batch_first=True).to(device)
    lengths = torch.tensor([len(row.ids) for row in rows], device=device)
    mask = (torch.arange(ids.size(1), device=device) < lengths[:, None]).long()
    labels = ids.masked_fill(weights == 0, _NO_LABEL)
    rows_apart = separated(mask, [row.starts for row in rows])
    forward = partial(model if rows_apart is None else partial(rows_apart.forward, model), labels=labels)
    outputs = forward(input_ids=ids, attention_mask=mask, use_cache=False, fused_lm_head=True)
    scores: torch.Tensor = (outputs.log_probs * weights[:, 1:]).sum(1)
    return scores


def fixed_scores(model: Any, rows: Sequence[ScoredRow], microbatch_tokens: int) -> list[float]:
    """Return the rows' scores without gradient, such as under a reference model."""
    scores = [0.0] * len(rows)
    training = model.training
    model.eval()
    with torch.no_grad(), scoring_head(model):
        sizes = RowSizes.unshared(np.array([[len(row.ids)] for row in rows]))
        for part in parts_of(sizes, microbatch_tokens):
            for index, value in zip(part, scores_of(model, [rows[i] for i in part]).tolist(), strict=True):
                scores[index] = value
    model.train(training)
    return scores
