"""The image inputs of a vision model for a training batch."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from agentgym.errors import PolicyError
from agentgym.messages import ImagePart, images_of
from agentgym.policy.adapters import own_model
from agentgym.policy.contract import Policy
from agentgym.policy.image_tokens import ImageTokens
from agentgym.text import counted
from agentgym.trajectory.record import Trajectory

PASSED_ON = frozenset({"pixel_values", "image_grid_thw", "pixel_attention_mask", "image_sizes", "image_position_ids"})
"""The outputs of image processors that TRL's forward pass passes to a model."""
MASKED_LOGIT = -1e4
"""The value added to a token's logit to make the token's probability exactly 0.

Every dtype can represent it, and no product with it is NaN.
"""


class VisionInputs:
    """Makes TRL's forward pass match the agent's sampling: the same images, and probability 0 for image tokens.

    Args:
        images: the image tokens of the policy's renderer.
        model: the trained model.
    """

    def __init__(self, images: ImageTokens, model: Any) -> None:
        self._images = images
        self._needs_token_types = "mm_token_type_ids" in inspect.signature(own_model(model).forward).parameters

    @classmethod
    def of(cls, policy: Policy, model: Any) -> VisionInputs | None:
        """Return the vision inputs of a policy that reads images; None for a text-only policy."""
        images = getattr(policy.renderer, "images", None)
        return cls(images, model) if isinstance(images, ImageTokens) else None

    def images_of(self, trajectory: Trajectory) -> list[ImagePart]:
        """Return the images of the trajectory's image tokens, in order.

        Images in the last results are left out, because the episode was over and they have no tokens.

        Raises: PolicyError if the number of image tokens does not match the images.
        """
        images: list[ImagePart] = []
        for row in trajectory.rows():
            images += images_of(row.opening)
            for turn in row.turns:
                if turn.observation_ids:
                    images += images_of(turn.observation())
        token_count = self._images.count(trajectory.arrays().ids.tolist())
        expected = sum(self._images.count(self._images.encode(image)) for image in images)
        if token_count != expected:
            raise PolicyError(
                f"{trajectory.id} cannot be trained on: it has {token_count} image tokens, but its "
                f"{counted(len(images), 'image')} should give {expected} here. It was recorded with a differently "
                "configured image processor: play the episode again with this one."
            )
        return images

    def model_kwargs(self, ids: torch.Tensor, images: Sequence[Sequence[ImagePart]], model: Any) -> dict[str, Any]:
        """Return the model's image arguments for some rows; an empty dict if no row has an image.

        Args:
            ids: [B, L]. `images`: [B] lists, the images of each row.
        Raises: PolicyError if the image processor returns an output that TRL does not pass on.
        """
        features = self._images.features([image for row in images for image in row])
        if not features:
            return {}
        if unknown := sorted(set(features) - PASSED_ON):
            raise PolicyError(
                f"{type(self._images.processor).__name__} makes {', '.join(unknown)} from an image, but TRL's trainer "
                f"passes only {', '.join(sorted(PASSED_ON))} on to the model, so it cannot be trained. Train a model "
                "like LLaVA or Qwen-VL; use the policy 'vision' to evaluate this one."
            )
        if self._needs_token_types:
            features["mm_token_type_ids"] = (ids == self._images.image_token_id).long()
        dtype = next(model.parameters()).dtype
        return {
            name: tensor.to(device=ids.device, dtype=dtype if tensor.is_floating_point() else tensor.dtype)
            for name, tensor in features.items()
        }

    @contextmanager
    def mask_image_logits(self, model: Any) -> Iterator[None]:
        """Set the probability of image tokens to 0 inside the block, as during sampling."""
        head = model.get_output_embeddings()
        own_bias, weight = head.bias, head.weight
        mask = torch.zeros(len(weight), dtype=weight.dtype, device=weight.device)
        mask[list(self._images.reserved_ids)] = MASKED_LOGIT
        # An attribute of the instance hides the parameter, which keeps its gradient.
        head.__dict__["bias"] = mask if own_bias is None else own_bias + mask
        try:
            yield
        finally:
            del head.__dict__["bias"]
