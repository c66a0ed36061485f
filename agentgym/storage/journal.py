"""The results of a long job so far, one per line: after a kill at any moment, only the current item is repeated."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentgym.storage.digests import digest_of


class Journal:
    """Values by text key, in an append-only file.

    A line that was truncated by a kill, or does not match its digest, counts as not written. Several processes may
    write to one journal. Each process knows only the values that were there when it opened the file, and its own.

    Args:
        path: the file, which is read if it exists.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._values: dict[str, Any] = {}
        if path.is_file():
            for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    key, value, *digest = json.loads(line)
                    if digest in ([], [_digest(key, value)]):  # earlier versions wrote no digest
                        self._values[key] = value
                except (ValueError, TypeError):
                    continue  # truncated, or not a journal line

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def write(self, key: str, value: Any) -> None:
        """Append a value of plain data; once this returns, the value survives a kill of this process."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(
                f"\n{json.dumps([key, value, _digest(key, value)])}\n"
            )  # on a new line, even after a truncated one
        self._values[key] = value

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)


def _digest(key: str, value: Any) -> int:
    return digest_of(json.dumps([key, value], sort_keys=True))
