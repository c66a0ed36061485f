"""The data, other than tokens, that a forward pass needs.

A batch carries it in its column `row_data`, one entry per row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import torch

from agentgym.messages import ImagePart
from agentgym.policy.token_masks import MaskedRow, masked_row
from agentgym.policy.vision_inputs import VisionInputs
from agentgym.trajectory.record import Trajectory

ROW_DATA = "row_data"
"""The column of a batch that holds a `RowData` for each row. TRL shuffles and splits it with the rows."""


@dataclass(frozen=True, slots=True)
class RowData:
    """The data of one row, other than tokens, that a forward pass needs.

    Attributes:
        images: the images of the row's image tokens, in order.
        masks: the logit hook's restrictions of the tokens after the prompt.
        context_starts: start of each context, counted from the row's first token, as in `TokenArrays.row_starts`.
        roles: the role of each context; "" for none.
    """

    images: Sequence[ImagePart] = ()
    masks: MaskedRow = ()
    context_starts: tuple[int, ...] = (0,)
    roles: tuple[str, ...] = ("",)

    @classmethod
    def of(cls, trajectory: Trajectory, vision: VisionInputs | None = None) -> RowData:
        """Make the row data of a trajectory. A failed or untokenised trajectory counts as one context.

        Args:
            vision: prepares images for a policy that reads them; None for other policies.
        Raises: PolicyError if the number of image tokens does not match the images.
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
    """A forward pass over rows: its inputs other than tokens, and its results.

    Attributes:
        rows: [B] the data of each row.
        own_tokens: (B, T) 1 on the agent's own tokens; only these are scored.
        scores: (B, T) log-probabilities, (B, T) entropies, and the other results of TRL's pass; empty before the pass.
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
    """Return the data of each row of a batch; default data if the batch has no such column."""
    rows: Sequence[RowData] = batch.get(ROW_DATA) or [RowData()] * len(batch["prompt_ids"])
    return rows
