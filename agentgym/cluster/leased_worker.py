"""An EpisodeWorker in its own process, which outlives its driver for the length of a lease and then exits."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentgym.cluster.episode_spool import folder_of_user
from agentgym.cluster.episode_worker import EpisodeWorker, SessionSpec
from agentgym.cluster.ray_host import CalledDirectly
from agentgym.cluster.ray_nodes import PROBE_S

CLOSE_S = 20.0
"""How long closing the environments of a lost driver may take."""


class LeasedWorker(CalledDirectly, EpisodeWorker):
    """Keeps playing while its driver is away: running tools finish, as do episodes that need no further reply.

    After a third of the lease without a heartbeat the ends of episodes are written to the disk. After the lease
    everything is closed, and the process exits.

    Args:
        lease_s: how long the worker outlives the last heartbeat, in seconds.
    """

    def __init__(self, lease_s: float) -> None:
        folder: Path | None = None
        with suppress(OSError):  # without free disk space, nothing is stored
            folder = folder_of_user()
        super().__init__(folder)
        self._lease_s = lease_s
        self._heard_at = time.monotonic() + PROBE_S  # heartbeats begin once the driver has probed the node
        self._loop: asyncio.AbstractEventLoop | None = None
        threading.Thread(target=self._watch, name="agentgym-lease", daemon=True).start()

    async def probe(self, backend: str | None = None) -> dict[str, Any]:
        """Return the facts that the driver checks before using a node."""
        self._loop = asyncio.get_running_loop()
        return await super().probe(backend)

    async def begin(self, session: str, spec: SessionSpec) -> set[str]:
        """Prepare for the episodes of a run. Returns: ids of episodes of its ledger that ended here earlier."""
        self.beat()
        return await super().begin(session, spec)

    def beat(self) -> None:
        """Answer a heartbeat of the driver, and renew the lease."""
        self._heard_at = time.monotonic()

    def _watch(self) -> None:
        while (silent_s := time.monotonic() - self._heard_at) < self._lease_s:
            if silent_s > self._lease_s / 3 and self._loop is not None:
                self._loop.call_soon_threadsafe(self.keep_ends)
            time.sleep(self._lease_s / 20)
        if self._loop is not None:
            with suppress(Exception):
                asyncio.run_coroutine_threadsafe(self.close(), self._loop).result(CLOSE_S)
        os._exit(0)
