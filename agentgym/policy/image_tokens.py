"""Images as a vision model reads them: token ids for each image, and the matching feature tensors.

The tokens of an image depend only on the image, never on the text around it. So they are inserted into a conversation
exactly like a tool's text: a trajectory's tokens stay exact, and an image's tokens are contiguous.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import Any

from agentgym._imports import install_command
from agentgym.errors import MissingExtraError, PolicyError
from agentgym.messages import ImagePart

MAX_PIXELS = 2**26
MAX_REMEMBERED = 4096
_BEFORE, _AFTER = "qzBEFOREzq", "qzAFTERzq"


class ImageTokens:
    """Implements ImageEncoder over a processor of transformers (Qwen-VL, LLaVA, and others with the same interface).

    Args:
        processor: has `tokenizer`, `image_processor`, `image_token_id`; called with text and images it repeats the
            image token as often as the model needs.
    Attributes:
        image_token_id: the repeated token.
        reserved_ids: tokens used only for and around images. An agent must never write one: the model would
            look for an image that is not there.
    Raises: PolicyError if the processor writes no image token.
    """

    def __init__(self, processor: Any) -> None:
        self.processor = processor
        self.image_token_id = int(processor.image_token_id)
        self._placeholder = self._written()
        tokenizer = processor.tokenizer
        placeholder_ids = tokenizer.encode(self._placeholder, add_special_tokens=False)
        if placeholder_ids.count(self.image_token_id) != 1:
            raise PolicyError(
                f"The processor {type(processor).__name__} writes an image as {self._placeholder!r}, which has its "
                f"image token {placeholder_ids.count(self.image_token_id)} times. agentgym needs a processor that "
                "writes one image as exactly one image token before expanding it."
            )
        specials = set(tokenizer.all_special_ids) | {i for i, t in tokenizer.added_tokens_decoder.items() if t.special}
        video = getattr(processor, "video_token_id", None)
        also = {self.image_token_id} if video is None else {self.image_token_id, int(video)}
        self.reserved_ids: tuple[int, ...] = tuple(sorted((set(placeholder_ids) & specials) | also))
        self._known: dict[str, list[int]] = {}

    def encode(self, image: ImagePart) -> list[int]:
        """Return the ids of one image, with markers. Raises: PolicyError if it cannot be read or is too large."""
        digest = image.digest
        if digest not in self._known:
            inputs = self.processor(
                text=[self._placeholder], images=[opened(image)], add_special_tokens=False, return_tensors="pt"
            )
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            self._known[digest] = inputs["input_ids"][0].tolist()
        return list(self._known[digest])

    def count(self, ids: Sequence[int]) -> int:
        """Count the image tokens among these ids."""
        return list(ids).count(self.image_token_id)

    def collapsed(self, ids: Sequence[int], images: Sequence[ImagePart]) -> list[int]:
        """Return the ids with each image's token only once, for a server that expands image tokens itself.

        Args:
            images: the images in the ids, in order; two may be adjacent.
        """
        collapsed_ids, at = list[int](), 0
        lengths = iter([self.count(self.encode(image)) for image in images])
        while at < len(ids):
            collapsed_ids.append(ids[at])
            at += next(lengths, 1) if ids[at] == self.image_token_id else 1
        return collapsed_ids

    def features(self, images: Sequence[ImagePart]) -> dict[str, Any]:
        """Return the tensors of several images, in the order of their tokens, by the model's argument names."""
        if not images:
            return {}
        return dict(self.processor.image_processor(images=[opened(image) for image in images], return_tensors="pt"))

    def _written(self) -> str:
        """Return the chat template's text for an image; the image token if the template supports no content parts."""
        from jinja2.exceptions import TemplateError

        image = str(self.processor.image_token)
        parts = [{"type": "text", "text": _BEFORE}, {"type": "image"}, {"type": "text", "text": _AFTER}]
        try:
            text = str(
                self.processor.tokenizer.apply_chat_template([{"role": "user", "content": parts}], tokenize=False)
            )
        except (TemplateError, TypeError, ValueError, AttributeError, KeyError):
            return image
        between = text.partition(_BEFORE)[2].partition(_AFTER)[0]
        return between if image in between else image


def opened(image: ImagePart) -> Any:
    """Return the image as a Pillow RGB image. Raises: PolicyError if it is unreadable, or larger than MAX_PIXELS."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise MissingExtraError(f"Reading images needs Pillow: {install_command('vision')}.") from error
    try:
        picture = Image.open(io.BytesIO(base64.b64decode(image.data)))
        if picture.width * picture.height > MAX_PIXELS:
            raise PolicyError(
                f"An image has {picture.width} x {picture.height} pixels; at most {MAX_PIXELS} pixels are allowed. "
                "Scale it down."
            )
        return picture.convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise PolicyError(
            f"An image ({image.media_type}, {len(image.data)} characters) cannot be read: {error}"
        ) from error
