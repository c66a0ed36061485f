"""Relative paths in the rows of a task file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_LONGEST_PATH = 255
FILE_KEYS = frozenset({"database", "corpus", "repository"})
"""Keys of parameters and truths whose value may be the path of a file or folder."""


def with_absolute_paths(row: Any, folder: Path) -> Any:
    """Return a row of a task file in which paths that exist relative to the file's folder are absolute.

    These are the values of `FILE_KEYS` in `parameters` and `truth`, at any depth. Other values stay as they are.
    """
    if not isinstance(row, dict):
        return row
    return {key: _absolute(row[key], folder) if key in ("parameters", "truth") else row[key] for key in row}


def _absolute(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_absolute(each, folder) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _path(each, folder) if key in FILE_KEYS else _absolute(each, folder) for key, each in value.items()}


def _path(value: Any, folder: Path) -> Any:
    if not isinstance(value, str) or not value or "\0" in value or len(value) > _LONGEST_PATH:
        return value
    path = folder / value
    return str(path.resolve()) if not Path(value).is_absolute() and path.exists() else value
