"""What a forward pass needs of the rows of a batch beside their tokens: one entry for each row, in one column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch

from agentgym.messages import ImagePart
from agentgym.training.loss.token_masks import MaskedRow, masked_row
from agentgym.training.loss.vision_inputs import VisionInputs
from agentgym.trajectory import Trajectory

ROW_DATA = "row_data"
"""The column of a batch that holds a `RowData` for each row. TRL shuffles and splits it with the rows."""


@dataclass(frozen=True, slots=True)
class RowData:
    """What a forward pass needs of one row beside its tokens.

    Attributes:
        images: that its tokens stand for, in order.
        masks: where a logit hook restricted the tokens after the prompt.
        context_starts: where its contexts begin, counted from its first token, as in `TokenArrays.row_starts`.
        roles: the roles of each context; "" where it has none.
    """

    images: Sequence[ImagePart] = ()
    masks: MaskedRow = ()
    context_starts: tuple[int, ...] = (0,)
    roles: tuple[str, ...] = ("",)

    @classmethod
    def of(cls, trajectory: Trajectory, vision: VisionInputs | None = None) -> RowData:
        """Read it from a trajectory. One that failed, or has no token ids, is trained on as one context.

        Args:
            vision: of a policy that reads images.
        Raises: PolicyError if the number of image tokens does not fit the images.
        """
        contexts = trajectory.rows()
        is_one = not trajectory.further_rows or not trajectory.valid or not trajectory.prompt_ids
        starts = (0,) if is_one else trajectory.arrays().row_starts
        return cls(
            images=vision.images_of(trajectory) if vision is not None and trajectory.valid else (),
            masks=masked_row(trajectory),
            context_starts=starts,
            roles=tuple(context.turns[0].role if context.turns else "" for context in contexts[: len(starts)]),
        )


@dataclass(slots=True)
class ForwardPass:
    """A forward pass over rows: what it reads beside their tokens, and what it has computed.

    Attributes:
        rows: [B] the data of each row.
        own_tokens: (B, T) 1 on the agent's own tokens, which alone are scored.
        scores: (B, T) log-probabilities and (B, T) entropies of the tokens, and what else TRL's pass returns; empty
            before the pass.
    """

    rows: Sequence[RowData] = ()
    own_tokens: torch.Tensor = field(default_factory=lambda: torch.zeros(0, 0))
    scores: tuple[Any, ...] = ()

    def images(self, rows: slice) -> list[Sequence[ImagePart]]:
        """Return the images of each of these rows."""
        return [row.images for row in self.rows[rows]]

    def roles(self, rows: slice) -> list[str]:
        """Return the role of each context of these rows."""
        return list(chain.from_iterable(row.roles for row in self.rows[rows]))


def read_row_data(batch: Mapping[str, Any]) -> Sequence[RowData]:
    """Return the data of each row of a batch; the defaults where it has no such column."""
    rows: Sequence[RowData] = batch.get(ROW_DATA) or [RowData()] * len(batch["prompt_ids"])
    return rows
