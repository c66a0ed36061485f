"""Makes the kernel kill agent code first when memory runs out, then guests, then spawners, and the host process last.

The kernel kills the process for which `its pages + limit x oom_score_adj / 1000` is largest. The limit is that of
whatever is full: the sandbox's control group, the job's, or the machine. When a job or the machine is full, the agent's
files may take up memory even after its processes are killed. So a guest must be killed before the host: the files go
with the guest. In its own group it must still outlive agent code, which may have hardly any pages.

A forked process inherits its parent's score (oom_score_adj), so the guest takes the score meant for agent code at the
moment of each fork. Agent code cannot change it afterwards, because its /proc is read-only; the guest has a descriptor
from before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from . import kernel

EXPENDABLE = b"1000"  # the highest score: killed before any process that has not set its own
SPAWNER = 500  # when the spawner is killed, all of its sandboxes end, and the layers that it keeps in memory
_MARGIN = 8 << 20  # bytes that a guest may grow by


def of_guest(limit: int, resident: int) -> int:
    """Return the score of a guest: so far below agent code's score that the guest's own pages do not matter.

    Args:
        limit: bytes that its sandbox may use. resident: bytes of memory that the guest starts with.
    """
    return max(1000 - -(-1000 * (resident + _MARGIN) // limit), SPAWNER)


def raise_own(score: int) -> None:
    """Set this process's score, unless it is higher. Raises: OSError."""
    path = "/proc/self/oom_score_adj"
    if int(kernel.read_from(path)) < score:
        kernel.write_to(path, str(score))


class OomScore:
    """The oom_score_adj of this process, and the highest one, which its children get."""

    def __init__(self, descriptor: int = -1) -> None:
        """`descriptor`: this process's oom_score_adj, opened for reading and writing; -1 if it does not exist."""
        self._descriptor = descriptor
        self._own = os.pread(descriptor, 16, 0).strip() if descriptor >= 0 else b""

    @contextmanager
    def of_children(self) -> Iterator[None]:
        """Make processes forked inside the block be killed first. Keep it short: it applies to this process too."""
        if self._descriptor < 0:
            yield
            return
        os.pwrite(self._descriptor, EXPENDABLE, 0)
        try:
            yield
        finally:
            os.pwrite(self._descriptor, self._own, 0)
