"""The screens of a task as images: the whole screen, scaled down if necessary, and enlarged parts of it."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym import ImagePart, Part, TaskError, TextPart, ToolError, install_command, load

from .drawing import draw

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_PIXELS, MAX_BYTES = 2**25, 2**25
SMALLEST = 8
ENLARGED = 8.0
PILLOW_MISSING = f"It needs the package Pillow to draw and cut screens: {install_command('vision')}."


def missing_packages() -> str:
    """Return what must be installed to draw screens; empty if nothing is missing."""
    try:
        import PIL  # noqa: F401
    except ImportError:
        return PILLOW_MISSING
    return ""


def screen_of(data: Any, where: str) -> Image:
    """Return a screen: drawn from widgets, or read from `{"path", "sha256"}`, `{"data"}` in base64 or `{"asset",
    "name"}`.

    Raises: TaskError that begins with `where`, if the screen is invalid or too large, or the file is not the task's.
    """
    if not isinstance(data, Mapping):
        raise TaskError(f"{where} must be an object with widgets, a path, data or an asset, not {data!r}.")
    if "widgets" in data:
        return draw(data)
    from PIL import Image, UnidentifiedImageError

    try:
        written = _content(data)
        if "sha256" in data and hashlib.sha256(written).hexdigest() != data["sha256"]:
            raise TaskError(f"{where}: {data.get('path')} has changed since the task was read. Load the tasks again.")
        image = Image.open(io.BytesIO(written))
        if image.width * image.height > MAX_PIXELS:
            raise TaskError(f"{where} has {image.width} x {image.height} pixels, but at most {MAX_PIXELS} are allowed.")
        return image.convert("RGB")
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
        if isinstance(error, TaskError):
            raise
        raise TaskError(f"{where} cannot be read as an image: {error}") from error


def whole_screen(image: Image, longest: int) -> ImagePart:
    """Return the screen, at most `longest` pixels wide and high."""
    scale = min(1.0, longest / max(image.size))
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    return as_part(image if scale == 1.0 else image.resize(size))


def enlarged(image: Image, box: tuple[int, int, int, int], longest: int) -> tuple[Part, ...]:
    """Return a part of the screen, scaled so that its longer side is `longest` pixels, with a caption.

    Raises: ToolError for a box outside of the screen or too small to see anything.
    """
    x0, y0, x1, y1 = box
    if not (0 <= x0 < x1 <= image.width and 0 <= y0 < y1 <= image.height):
        raise ToolError(
            f"The part ({x0}, {y0}, {x1}, {y1}) is not on the screen, which is {image.width} x {image.height}: "
            "left < right, top < bottom."
        )
    if x1 - x0 < SMALLEST or y1 - y0 < SMALLEST:
        raise ToolError(f"A part is at least {SMALLEST} x {SMALLEST} pixels, not {x1 - x0} x {y1 - y0}.")
    scale = min(ENLARGED, longest / max(x1 - x0, y1 - y0))
    size = (max(1, round((x1 - x0) * scale)), max(1, round((y1 - y0) * scale)))
    caption = f"Screen from ({x0}, {y0}) to ({x1}, {y1}), {scale:.2f} times as large:"
    return TextPart(caption), as_part(image.crop(box).resize(size))


def as_part(image: Image) -> ImagePart:
    """Return an image as PNG inside a message."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return ImagePart(base64.b64encode(buffer.getvalue()).decode())


def _content(data: Mapping[str, Any]) -> bytes:
    if "asset" in data:
        image_bytes: bytes = load("assets", str(data["asset"]))(str(data.get("name")))
        return image_bytes
    return base64.b64decode(str(data["data"])) if "data" in data else _file(Path(str(data.get("path"))))


def _file(path: Path) -> bytes:
    with path.open("rb") as file:
        written = file.read(MAX_BYTES + 1)
    if len(written) > MAX_BYTES:
        raise TaskError(f"{path} has more than {MAX_BYTES} bytes.")
    return written
