"""The ready sandboxes of one spec: how many there should be, and how much memory each takes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from agentgym.sandbox.contract import Snapshot
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.pool.admission import Slot

_FIRST_SHARE = 1 / 8  # the first estimate of a sandbox's memory, as a share of the spec's memory_mib
_MARGIN = 1.25  # the estimate divided by the mean of the measured peaks
_LEAST_MIB = 4.0
_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0  # pause after a failed creation in the background, and its maximum


@dataclass(eq=False)
class WarmSet:
    """Ready sandboxes of one spec, with the files of one snapshot or none.

    `target`: how many should be ready. It starts at 0, so that a single use creates none in advance. Each later request
    that finds none raises the target to 1, 2, 4, ... up to the pool's `ready`. `pending`: slots that are being filled.
    """

    key: Hashable
    spec: SandboxSpec
    snapshot: Snapshot | None
    cost_mib: float = field(init=False)
    ready: deque[Slot] = field(default_factory=deque)
    target: int = 0
    pending: set[Slot] = field(default_factory=set)
    requests: int = 0
    requested_at: float = 0.0
    peaks_mib: deque[float] = field(default_factory=lambda: deque(maxlen=64))
    paused_until: float = 0.0
    pause_s: float = _PAUSE_S

    def __post_init__(self) -> None:
        self.cost_mib = max(self.spec.memory_mib * _FIRST_SHARE, _LEAST_MIB)

    def ask(self, now: float) -> None:
        """Record a request."""
        self.requests, self.requested_at = self.requests + 1, now

    def missed(self, most: int) -> None:
        """Record that a request found no ready sandbox, which may raise the target, up to `most`."""
        if self.requests > 1:
            self.target = max(self.target, min(2 * self.target or 1, most))

    def pause(self, now: float) -> float:
        """Pause background creation; the pause doubles with each failure in a row. Returns: its seconds."""
        seconds = self.pause_s
        self.paused_until, self.pause_s = now + seconds, min(2 * seconds, _LONGEST_PAUSE_S)
        return seconds

    def resume(self) -> None:
        self.pause_s = _PAUSE_S

    def learn(self, peak_mib: float) -> None:
        """Record the memory peak of a sandbox, which updates the estimate for the next ones."""
        if peak_mib > 0:
            self.peaks_mib.append(peak_mib)
            self.cost_mib = max(sum(self.peaks_mib) / len(self.peaks_mib) * _MARGIN, _LEAST_MIB)

    def usable(self, slot: Slot) -> bool:
        """Return whether this event loop may use the sandbox: it last ran in this loop, or in one that has stopped."""
        return slot.loop is None or slot.loop is asyncio.get_running_loop() or not slot.loop.is_running()

    def take(self) -> Slot | None:
        """Return the oldest ready sandbox that this event loop may use; None if there is none."""
        for slot in self.ready:
            if self.usable(slot):
                self.ready.remove(slot)
                return slot
        return None
