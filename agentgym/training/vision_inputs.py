"""Images in training: what a vision model is given to see beside the tokens of a batch."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from agentgym.errors import PolicyError
from agentgym.messages import ImagePart, images_of
from agentgym.policy.contract import Policy
from agentgym.policy.image_tokens import ImageTokens
from agentgym.trajectory import Trajectory

PASSED_ON = frozenset({"pixel_values", "image_grid_thw", "pixel_attention_mask", "image_sizes", "image_position_ids"})
"""What TRL's forward pass hands to a model, of all that image processors may give."""
NEVER = -1e4
"""Added to a logit, it leaves a probability of exactly 0; every dtype holds it, and no product with it is NaN."""


class VisionInputs:
    """Makes a forward pass of TRL's see what the agent saw, and weigh the words that it could choose from.

    Args:
        images: of the renderer that the policy samples with.
        model: that is trained.
    """

    def __init__(self, images: ImageTokens, model: Any) -> None:
        self._images = images
        self._wants_kinds = "mm_token_type_ids" in inspect.signature(model.forward).parameters

    @classmethod
    def of(cls, policy: Policy, model: Any) -> VisionInputs | None:
        """The sight of a policy that reads images; None for one that reads text only."""
        images = getattr(policy.renderer, "images", None)
        return cls(images, model) if isinstance(images, ImageTokens) else None

    def shown(self, trajectory: Trajectory) -> list[ImagePart]:
        """The images that the trajectory's tokens stand for, in order; of what came back last, nothing was read.

        Raises: PolicyError if tokens and images are not of one conversation.
        """
        found = images_of(trajectory.opening)
        for turn in trajectory.turns:
            if turn.observation_ids:
                found += images_of([*(result.message() for result in turn.results), *turn.replies])
        held = self._images.count(trajectory.arrays().ids.tolist())
        wanted = sum(self._images.count(self._images.encode(image)) for image in found)
        if held != wanted:
            raise PolicyError(
                f"{trajectory.id} holds {held} image tokens where its {len(found)} image(s) have {wanted}, so it "
                "cannot be trained on. It was recorded with another image processor: play it again with this one."
            )
        return found

    def beside(self, ids: torch.Tensor, shown: Sequence[Sequence[ImagePart]], model: Any) -> dict[str, Any]:
        """Arguments of the model beside the tokens of some rows; none where no row shows an image.

        Args:
            ids: [B, L]. `shown`: [B] the images of each row.
        Raises: PolicyError where the image processor gives what TRL does not pass on.
        """
        made = self._images.features([image for row in shown for image in row])
        if not made:
            return {}
        if strange := sorted(set(made) - PASSED_ON):
            raise PolicyError(
                f"{type(self._images.processor).__name__} makes {', '.join(strange)} of an image, which TRL's trainer "
                f"does not pass on to the model (it passes {', '.join(sorted(PASSED_ON))}). Models like LLaVA and "
                "Qwen-VL can be trained; others can be evaluated with the policy 'vision'."
            )
        if self._wants_kinds:
            made["mm_token_type_ids"] = (ids == self._images.image_token_id).long()
        dtype = next(model.parameters()).dtype
        return {
            name: tensor.to(device=ids.device, dtype=dtype if tensor.is_floating_point() else tensor.dtype)
            for name, tensor in made.items()
        }

    @contextmanager
    def silenced(self, model: Any) -> Iterator[None]:
        """For a while, no token that stands for an image has any probability: the agent could not choose one either."""
        head = model.get_output_embeddings()
        own, weight = head.bias, head.weight
        bias = torch.zeros(len(weight), dtype=weight.dtype, device=weight.device)
        bias[list(self._images.reserved_ids)] = NEVER
        head.__dict__["bias"] = bias if own is None else own + bias  # hides the parameter, which keeps its gradient
        try:
            yield
        finally:
            del head.__dict__["bias"]


class Collator:
    """Makes a batch of the rows that `imitate` makes of its examples: padded right, with what is seen beside them."""

    def __init__(self, sight: VisionInputs, model: Any, tokenizer: Any, examples: Sequence[Trajectory]) -> None:
        self._sight, self._model, self._pad = sight, model, int(tokenizer.pad_token_id)
        self._shown = [sight.shown(example) for example in examples]

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        def padded(name: str, filler: int) -> torch.Tensor:
            return pad_sequence([torch.tensor(row[name]) for row in rows], batch_first=True, padding_value=filler)

        ids, labels = padded("input_ids", self._pad), padded("labels", -100)
        lengths = torch.tensor([len(row["input_ids"]) for row in rows])
        mask = (torch.arange(ids.size(1)) < lengths[:, None]).long()
        shown = [self._shown[row["row"]] for row in rows]
        beside = self._sight.beside(ids, shown, self._model)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels, **beside}
