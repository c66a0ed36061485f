"""The driver's view of a sandbox that a SandboxHost runs on another node."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from agentgym.cluster.host_link import HostLink, HostNode, RemoteHost
from agentgym.errors import ClusterError, SandboxDied
from agentgym.sandbox import ExecResult, Snapshot
from agentgym.sandbox.contract import Connection
from agentgym.sandbox.guest.counted_time import longest_s
from agentgym.sandbox.metering import record_missing, record_usage
from agentgym.sandbox.time_limit import SandboxCall, uncounted
from agentgym.sandbox.wrapper import SandboxWrapper

SLACK_S = 30.0
"""How much longer than its node this process waits for the end of a call."""


class SandboxHostLink(HostLink):
    """The connection to the SandboxHost on one node. `ask` raises SandboxDied.

    Attributes:
        sandboxes: how many it has or is creating.
    """

    def __init__(self, node: HostNode, host: RemoteHost) -> None:
        super().__init__(node, host)
        self.sandboxes = 0
        self._numbers = itertools.count()

    @property
    def load(self) -> float:
        """Sandboxes per CPU."""
        return self.sandboxes / self.node.cpus

    def next_number(self) -> int:
        """Return a new call number, used to cancel the call."""
        return next(self._numbers)

    async def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the host, once. Raises: SandboxDied."""
        try:
            return await super().ask(method, *arguments)
        except ClusterError as error:
            raise SandboxDied(str(error)) from error


class HostedSandbox(SandboxWrapper):
    """A sandbox on a SandboxHost.

    Attributes:
        image_digest: the digest of the image that its files come from.
        missing: the limits that its node does not enforce, each with the reason; only those accepted.
    """

    def __init__(
        self, link: SandboxHostLink, key: str, base: Snapshot | None, *, image_digest: str, missing: dict[str, str]
    ) -> None:
        self._link, self._key, self._base = link, key, base
        self.image_digest, self.missing = image_digest, missing
        self._connections: tuple[Connection, ...] = ()
        self._ended = ""
        self._closed: asyncio.Future[None] | None = None

    async def run(self, method: str, program: Any, **options: Any) -> ExecResult:
        if method == "exec":  # only plain data is sent
            program = program if isinstance(program, str | bytes) else [str(part) for part in program]
            options["env"] = dict(options["env"] or {})
        call, counted_s = SandboxCall(options["timeout_s"]), 0.0
        try:
            async with self._answering(call.timeout_s):
                result: ExecResult = await self._ask(method, program, **{**options, "timeout_s": call.timeout_s})
            counted_s = result.duration_s - result.usage.waited_s
        finally:
            call.end_elsewhere(counted_s)
        record_usage(result.usage)
        record_missing(self.missing)
        if result.timed_out:
            await call.time_is_up()
        return result

    async def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        await super().write(path, bytes(data), mode)

    async def open_channel(self, argv: Sequence[str]) -> HostedChannel:
        """Start a process that communicates in JSON lines."""
        record_missing(self.missing)
        return HostedChannel(self, await self.call("open_channel", [str(part) for part in argv]))

    async def snapshot(self) -> Snapshot:
        """Return the files under /work and /tmp. Layers that the sandbox was made from are not transferred."""
        snapshot = await super().snapshot()
        known = {layer.digest: layer for layer in (self._base.layers if self._base else ())}
        layers = tuple(known.get(layer.digest, layer) for layer in snapshot.layers)
        return replace(snapshot, layers=layers)

    @property
    def connections(self) -> tuple[Connection, ...]:
        """The sandbox's network requests, as of the node's last answer."""
        return self._connections

    async def close(self) -> None:
        """Kill all processes and leave nothing behind. On a lost node the lease ends the sandbox."""
        if self._closed is not None:
            await asyncio.wait({self._closed})
            return
        self._ended, self._closed = "The sandbox was closed.", asyncio.get_running_loop().create_future()
        self._link.sandboxes -= 1
        try:
            self._connections = await self._link.ask("discard", self._key) or self._connections
        except SandboxDied:
            pass  # it died with its node
        finally:
            self._closed.set_result(None)

    async def host_pid(self) -> int:
        """Return the id of the host process on the node."""
        facts = await self._link.ask("probe")
        return int(facts["pid"])

    async def request(self, channel: int, message: Any, timeout_s: float) -> tuple[Any, float, bool]:
        """Send a request to a channel. Returns: see SandboxHost. Raises: SandboxDied; HostOverloaded."""
        async with self._answering(timeout_s):
            answer: tuple[Any, float, bool] = await self._ask("request", channel, message, timeout_s=timeout_s)
            return answer

    @asynccontextmanager
    async def _answering(self, limit_s: float) -> AsyncIterator[None]:
        """Wait for the end of a call for longer than its node does. Raises: SandboxDied."""
        try:
            async with asyncio.timeout(longest_s(limit_s if limit_s > 0 else 0.0) + SLACK_S) as limit:
                yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise SandboxDied(f"The sandbox on {self._link.node.name} gave no answer in time.") from error

    async def call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the sandbox on its node, once. Its time counts nowhere. Raises: as `_ask`."""
        with uncounted():
            return await self._ask(method, *arguments, **options)

    async def _ask(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the sandbox on its node, once. Raises: the method's error; SandboxDied."""
        if self._ended:
            raise SandboxDied(self._ended)
        number = self._link.next_number()
        try:
            value, error, self._connections = await self._link.ask(
                "call", number, self._key, method, arguments, options
            )
        except asyncio.CancelledError:
            self._link.send("cancel", number)
            raise
        if error is not None:
            raise error
        return value


class HostedChannel:
    """A channel to a process in a HostedSandbox.

    Attributes:
        waited_s: how long requests waited for a processor of the node, for the node itself or for the network.
    """

    waited_s = 0.0

    def __init__(self, sandbox: HostedSandbox, number: int) -> None:
        self._sandbox, self._number = sandbox, number
        self._closed = False

    async def request(self, message: Any, *, timeout_s: float = 30) -> Any:
        """Send one JSON value and return the value of the next line."""
        if self._closed:
            raise SandboxDied("This channel is closed. Open a new one.")
        call, counted_s = SandboxCall(timeout_s), 0.0
        try:
            value, counted_s, is_late = await self._sandbox.request(self._number, message, call.timeout_s)
        finally:
            self.waited_s += call.end_elsewhere(counted_s)
        if is_late:
            await call.time_is_up()
            raise TimeoutError
        return value

    async def close(self) -> None:
        """Kill the process and everything it started."""
        if not self._closed:
            self._closed = True
            with suppress(SandboxDied):  # the channel ends with its sandbox
                await self._sandbox.call("close_channel", self._number)
