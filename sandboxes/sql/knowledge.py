"""What an agent has seen of a database: the state of a world that its own reading changes, and nothing else."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any


class Knowledge:
    """The results seen so far, in any order.

    Args:
        identity: hash of the world that they are about.
    """

    def __init__(self, identity: str) -> None:
        self.identity = identity
        self._seen: set[str] = set()

    def add(self, result: str) -> str:
        """Remember a result. Returns: the same."""
        self._seen.add(result)
        return result

    def key(self, *more: str) -> str:
        """Hash of the world, of the results seen, and of whatever else tells two states apart."""
        digest = hashlib.sha256("\0".join((self.identity, *more)).encode())
        for result in sorted(self._seen):
            digest.update(hashlib.sha256(result.encode()).digest())
        return digest.hexdigest()[:32]

    def data(self) -> dict[str, Any]:
        """As plain data, for a checkpoint."""
        return {"seen": sorted(self._seen)}

    def restore(self, data: Mapping[str, Any]) -> None:
        """From what `data` gave."""
        self._seen = set(data["seen"])
