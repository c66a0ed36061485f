"""One message for errors of a full disk or missing write permission."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator

_FULL = {errno.ENOSPC, errno.EDQUOT}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL_TEXT = re.compile(r"No space left on device|Disk quota exceeded|database or disk is full", re.IGNORECASE)
_TORCH_TEXT = re.compile(r"PytorchStreamWriter failed|inline_container\.cc.*unexpected pos", re.DOTALL)
"""Torch's messages for a file that could not be written completely, which do not give the reason."""


def not_writable(error: BaseException) -> str | None:
    """Return the message for an error of a full disk or missing permission; None for other errors."""
    for cause in _chain(error):
        number, file = getattr(cause, "errno", None), getattr(cause, "filename", None)
        path = f" {file}" if file else ""
        if number in _FULL or _FULL_TEXT.search(str(cause)):
            return (
                f"Cannot write{path}: no space is left on the disk. Make room, and run the command again (of a "
                "training with --resume): what is complete was kept."
            )
        if isinstance(cause, OSError) and number in _REFUSED and file:
            return f"Cannot open{path}: {cause.strerror}. Name another place, or get the right to use it."
        if _TORCH_TEXT.search(str(cause)):
            return (
                "Cannot write a checkpoint whole, as on a disk without space. Make room, and run the command again "
                "with --resume: what is complete was kept."
            )
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and what caused it."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
