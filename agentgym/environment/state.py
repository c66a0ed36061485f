"""Descriptions of an environment's state: a checkpoint, an outlook, and what an agent has seen of the state."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agentgym.sandbox import Snapshot


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An environment at one moment: plain data, and the files of its sandbox. Live processes are not captured."""

    data: Mapping[str, Any] = field(default_factory=dict)
    snapshot: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class Outlook:
    """How the task can still end from here. The stop rules of a rollout read it; the agent is not told.

    Attributes:
        hopeless: a text that says why the task can no longer be solved; None if it still can, or if unknown.
        turns_needed: the fewest turns in which the oracle would still solve the task; None if unknown.
    """

    hopeless: str | None = None
    turns_needed: int | None = None


class ObservedState:
    """The set of results that an agent has seen so far; order and repetition do not count.

    Two episodes whose agents have read the same results from the same environment are in the same state.

    Args:
        identity: identifies what the results describe, such as the hash of a database.
        seen: results already seen.
    """

    def __init__(self, identity: str = "", seen: Iterable[str] = ()) -> None:
        self.identity = identity
        self._seen = set(seen)

    def add(self, result: str) -> str:
        """Add a result. Returns: the same result."""
        self._seen.add(result)
        return result

    def key(self, *more: str) -> str:
        """Return a hash for `state_key`: of the identity, the results, and `more` texts that tell states apart."""
        parts = (self.identity, *more) if self.identity else more
        digest = hashlib.sha256("\0".join(parts).encode("utf-8", "replace"))
        for result in sorted(self._seen):
            digest.update(hashlib.sha256(result.encode("utf-8", "replace")).digest())
        return digest.hexdigest()[:32]

    def data(self) -> dict[str, Any]:
        """Return the state as plain data, for a checkpoint."""
        return {"seen": sorted(self._seen)}

    def restore(self, data: Mapping[str, Any]) -> None:
        """Restore the state from the result of `data`."""
        self._seen = set(data["seen"])
