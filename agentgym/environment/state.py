"""What an environment can say of its state: a checkpoint, an outlook, and what an agent has seen of it."""

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
        hopeless: why the task cannot be solved any more, in words; None while it can, or if that is unknown.
        turns_needed: the fewest turns in which the oracle would still solve the task; None if that is unknown.
    """

    hopeless: str | None = None
    turns_needed: int | None = None


class ObservedState:
    """The results that an agent has seen so far. Neither their order nor repetition counts.

    Two episodes in which an agent has read the same things of the same environment are in the same state.

    Args:
        identity: what the results are about, such as the hash of a database.
        seen: results seen already.
    """

    def __init__(self, identity: str = "", seen: Iterable[str] = ()) -> None:
        self.identity = identity
        self._seen = set(seen)

    def add(self, result: str) -> str:
        """Remember a result. Returns: the same."""
        self._seen.add(result)
        return result

    def key(self, *more: str) -> str:
        """Return a hash of the identity, of the results, and of whatever else tells two states apart, for
        `state_key`.
        """
        parts = (self.identity, *more) if self.identity else more
        digest = hashlib.sha256("\0".join(parts).encode("utf-8", "replace"))
        for result in sorted(self._seen):
            digest.update(hashlib.sha256(result.encode("utf-8", "replace")).digest())
        return digest.hexdigest()[:32]

    def data(self) -> dict[str, Any]:
        """As plain data, for a checkpoint."""
        return {"seen": sorted(self._seen)}

    def restore(self, data: Mapping[str, Any]) -> None:
        """Take over what `data` gave."""
        self._seen = set(data["seen"])
