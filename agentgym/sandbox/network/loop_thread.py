"""An event loop in its own thread, for work that outlives the host's event loops."""

from __future__ import annotations

import asyncio
import os
import resource
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from agentgym.errors import SandboxError
from agentgym.sandbox.network.connection_slots import ConnectionSlots
from agentgym.sandbox.network.processor_share import ProcessorShare

_END_S = 10.0


class LoopThread:
    """An event loop in a daemon thread of this process, with the limits that all sandboxes share.

    Attributes:
        connection_slots: limit on concurrent connections. processor: limit on the thread's processor time.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._loop = asyncio.new_event_loop()
        # a connection takes two descriptors, and half of the process's descriptors stay free
        self.connection_slots = ConnectionSlots(max(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 4, 8))
        self.processor = ProcessorShare()
        self._thread = threading.Thread(target=self._loop.run_forever, name="agentgym-proxy", daemon=True)
        self._thread.start()

    @property
    def usable(self) -> bool:
        """Return whether the thread runs; False in a forked process, which does not have the thread."""
        return self._owner == os.getpid() and not self._loop.is_closed()

    def soon(self, function: Callable[..., None], *arguments: Any) -> bool:
        """Make the loop call a function. Returns: False if the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:  # closed
            return False
        return True

    def wait_for(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine in the loop and wait for it. Raises: SandboxError if it does not end in time."""
        done: Future[None] = Future()

        def begin() -> None:
            task = self._loop.create_task(work())
            task.add_done_callback(lambda _: done.set_result(None))

        if self._thread.is_alive() and self.soon(begin):
            try:
                done.result(_END_S)
            except TimeoutError as error:
                raise SandboxError(f"The proxy could not close its connections within {_END_S:g} s.") from error

    def end(self) -> None:
        """Cancel everything that runs in the loop, and end the thread."""
        self.wait_for(self._cancel_all)
        self.soon(self._loop.stop)
        self._thread.join(_END_S)
        self._loop.close()

    async def _cancel_all(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
