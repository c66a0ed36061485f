"""What a long job has found out so far, one line each: killed at any moment, it does no more again than it was at."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Journal:
    """Values by the words that name them, in a file that only grows.

    A line that was cut short when its writer was killed counts as not written. Several processes may write to one
    journal; each knows what was there when it began, and what it wrote itself.

    Args:
        path: the file, which need not exist; what it has is read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._values: dict[str, Any] = {}
        if path.is_file():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    key, value = json.loads(line)
                    self._values[key] = value
                except (ValueError, TypeError):
                    continue  # cut short, or no line of a journal

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def write(self, key: str, value: Any) -> None:
        """Add a value of plain data; it outlives this process when this returns."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"\n{json.dumps([key, value])}\n")  # on a line of its own, also after one that was cut short
        self._values[key] = value

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)
