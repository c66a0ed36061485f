"""Images for a vLLM server: send token ids and images, and check that the server read the intended ids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym.errors import PolicyError
from agentgym.messages import ImagePart
from agentgym.policy.image_tokens import ImageTokens
from agentgym.policy.rendering import TemplateRenderer

PATH = "/inference/v1/generate"
NEVER = -100.0  # the lowest bias that the server takes


def generate_request(
    renderer: TemplateRenderer, prefix: Sequence[int], images: Sequence[ImagePart], options: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return path and body of a request with images. In the request an image is one token, which the server expands.

    Args:
        prefix: the tokens so far, with all tokens of each image.
        images: all images, in order.
        options: how to sample.
    Raises: PolicyError if the renderer does not support images.
    """
    tokens = renderer.images
    if not isinstance(tokens, ImageTokens):
        raise PolicyError(
            "The conversation contains an image, but this policy's renderer writes text only. Give "
            "renderer=TemplateRenderer(tokenizer, call_format, images=ImageTokens(processor))."
        )
    return PATH, {
        "token_ids": tokens.collapsed(prefix, images),
        "content_parts": [
            {"type": "image_url", "url": f"data:{image.media_type};base64,{image.data}"} for image in images
        ],
        "sampling_params": options | {"logit_bias": {str(token): NEVER for token in tokens.reserved_ids}},
        "return_token_ids": True,
    }


def completion_choice(choice: dict[str, Any], prefix: Sequence[int]) -> dict[str, Any]:
    """Return the choice in the form of /v1/completions.

    Raises: PolicyError if the server read other tokens than the prefix.
    """
    read = choice.get("prompt_token_ids")
    if read != list(prefix):
        count = len(read) if isinstance(read, list) else "no"
        raise PolicyError(
            f"The server read {count} prompt tokens instead of the expected {len(prefix)}, so the recorded prompt "
            "would differ from what the model saw. Its image processor is configured differently (size, pixels) from "
            "the renderer's. Load both from the same folder, and start the server without --mm-processor-kwargs."
        )
    rows = (choice.get("logprobs") or {}).get("content")
    logprobs = [row.get("logprob") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else None
    return choice | {"logprobs": {"token_logprobs": logprobs}}
