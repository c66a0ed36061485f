"""The Sandbox contract, implemented by requests to a guest."""

from __future__ import annotations

import asyncio
import builtins
import math
import os
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from agentgym.errors import SandboxDied, SandboxExhausted
from agentgym.sandbox import metering
from agentgym.sandbox.contract import Connection, ExecResult, Snapshot, Usage
from agentgym.sandbox.guest.frames import RELAY_ADDRESS
from agentgym.sandbox.host.channel import LineChannel
from agentgym.sandbox.host.guest_handle import GuestHandle, descriptors_available
from agentgym.sandbox.host.replies import exec_result, file_error, names_of, usage_of, whole_number
from agentgym.sandbox.host.sessions import SessionCall, SessionLog
from agentgym.sandbox.host.snapshots import receive_files
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.link import Link, Reply
from agentgym.sandbox.network.proxy import Proxy
from agentgym.sandbox.time_limit import SandboxCall, active_limits, check_not_starved, uncounted

_MIB = 2**20
_GRACE_S = 5.0  # the host waits this much longer than the guest's own limit
_FILE_S = 60.0
_READ_PIECE = 4 * _MIB
_MAX_NAMES_BYTES = 8 * _MIB
_IMAGE_NAMES = 65_536  # files that a directory of the image may hold, in addition to the agent's files
_EXHAUSTED = "The sandbox ran out of memory and ended: its files and processes are gone."
_STALLED = (
    "The sandbox was ended: what its code made takes the kernel too long to remove. Its files and processes are gone."
)

T = TypeVar("T")


class GuestSandbox:
    """A sandbox with one of our guests inside. The contract's docstrings are in agentgym/sandbox/contract.py."""

    def __init__(
        self,
        spec: SandboxSpec,
        backend: str,
        guest: GuestHandle,
        make_guest: Callable[[], Awaitable[GuestHandle]],
        proxy: Proxy | None = None,
    ) -> None:
        """Make a sandbox.

        Args:
            make_guest: creates another guest in the initial state of this one.
            proxy: serves the sandbox's relay, if one is opened.
        """
        self._spec, self._backend, self._make_guest = spec, backend, make_guest
        self._guest, self._proxy = guest, proxy or Proxy()
        self._sessions: dict[str, asyncio.Lock] = {}
        self._channels: builtins.list[LineChannel] = []
        self._owner = os.getpid()
        self._log = SessionLog()
        self._busy, self._waited_s = metering.BusyTime(), 0.0
        self._resetting = asyncio.Lock()
        self._closed = False

    async def exec(
        self,
        argv: Sequence[str],
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 30,
        max_output_bytes: int = 65_536,
    ) -> ExecResult:
        """Run a command and wait for its end."""
        if isinstance(argv, str | bytes) or not argv:
            raise ValueError(
                f"argv = {argv!r} is not valid: pass a list that begins with the program. For a shell command, pass "
                "['sh', '-c', text]."
            )
        request = {"op": "exec", "argv": [str(part) for part in argv], "cwd": cwd, "env": dict(env or {})}
        return await self._run(request, stdin, timeout_s, max_output_bytes)

    async def run_python(
        self, code: str, *, session: str | None = None, timeout_s: float = 30, max_output_bytes: int = 65_536
    ) -> ExecResult:
        """Run Python in a fork of the warm interpreter, or in a session."""
        text = code.encode("utf-8", "surrogatepass")
        if session is None:
            return await self._run({"op": "python"}, text, timeout_s, max_output_bytes)
        async with self._sessions.setdefault(session, asyncio.Lock()):
            alive = False
            try:
                request = {"op": "session", "session": session}
                result = await self._run(request, text, timeout_s, max_output_bytes)
                alive = not result.timed_out and result.exit_code >= 0
            finally:
                if not alive:
                    self._log.forget(session)
            if alive:
                self._log.add(SessionCall(session, code, result.exit_code))
            return result

    async def read(self, path: str, *, max_bytes: int = 16 * _MIB) -> bytes:
        """Return the content of a regular file, fetched in pieces of 4 MiB."""
        pieces: list[bytes] = []
        offset = 0
        while True:
            most = min(_READ_PIECE, max_bytes)
            header, piece = await self._file("read", path, max_blob=most, offset=offset, most=most)
            size = self._parse(lambda reply: whole_number(reply, "size"), header)
            if size > max_bytes:
                raise ValueError(f"{path} has {size} bytes, but only {max_bytes} (max_bytes) are allowed.")
            pieces.append(piece)
            offset += len(piece)
            if len(piece) < most or offset >= size:  # only the last piece may be incomplete
                return b"".join(pieces)

    async def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Create or replace a file, and create its missing directories."""
        await self._file("write", path, bytes(data), mode=mode)

    async def list(self, path: str = ".") -> list[str]:
        count = self._spec.inodes + _IMAGE_NAMES
        _, names = await self._file("list", path, max_blob=_MAX_NAMES_BYTES, most=_MAX_NAMES_BYTES, most_names=count)
        return self._parse(lambda reply: names_of(reply, count), names)

    async def open_channel(self, argv: Sequence[str]) -> LineChannel:
        """Start a process that speaks JSON lines. Its standard error is kept for error messages."""
        guest = self._current()
        with uncounted():
            channel = await self._attributed(guest, LineChannel.open(guest.link, [str(part) for part in argv]))
        self._channels.append(channel)
        if self._guest.missing:
            metering.record_missing(self._guest.missing)
        return channel

    async def snapshot(self) -> Snapshot:
        """Return the files under /work and /tmp. Everything in the sandbox pauses meanwhile.

        If the sandbox was created from a snapshot, only the changes are transferred.
        """
        guest = self._current()
        files = receive_files(guest, self._backend, self._spec, _FILE_S, below=guest.base_snapshot)
        with uncounted():
            return await self._attributed(guest, files)

    async def reset(self) -> None:
        """Replace the guest by a new one: anything that an agent left is gone, even in the guest's memory."""
        self._current()
        async with self._resetting:
            with uncounted():
                await self._replace_guest()

    async def _replace_guest(self) -> None:
        self._drop_channels()
        self._sessions.clear()
        self._log, self._busy, self._waited_s = SessionLog(), metering.BusyTime(), 0.0
        self._guest.link.close("The sandbox was reset.")
        await self._guest.close()
        if self._closed:
            raise SandboxDied("The sandbox is closed. Create a new one.")
        guest = await self._make_guest()
        self._guest = guest
        if self._closed:  # meanwhile
            await guest.close()

    async def relay(self, address: tuple[str, int]) -> tuple[str, int]:
        """Let programs inside reach one address of the host. Returns: the address to connect to inside."""
        guest = self._current()
        with uncounted():
            await self._attributed(guest, guest.open_relay(self._proxy, address))
        return RELAY_ADDRESS

    async def usage(self) -> Usage:
        header, _ = await self._call({"op": "usage"}, deadline_s=_GRACE_S)
        return replace(self._parse(usage_of, header), wall_s=self._busy.seconds, waited_s=self._waited_s)

    async def close(self) -> None:
        """Kill everything and leave nothing behind. May be called twice."""
        self._closed = True
        self._drop_channels()
        if self._owner == os.getpid():
            await self._guest.close()
        else:
            self._guest.forget()

    def _drop_channels(self) -> None:
        for channel in self._channels:
            channel.drop()
        self._channels.clear()

    @property
    def session_log(self) -> SessionLog:
        """Return the calls that made the live sessions, for `replay_sessions`."""
        return self._log.copy()

    @property
    def missing(self) -> dict[str, str]:
        """Return the limits of the spec not enforced here, each with the reason; only those accepted."""
        return self._guest.missing

    @property
    def connections(self) -> tuple[Connection, ...]:
        """Return the network requests since the sandbox was created or reset, in order, even after its end.

        Empty without a network.
        """
        network = self._guest.network
        return () if network is None else network.connections

    @property
    def image_digest(self) -> str:
        """Return the digest of the sandbox's image, as "sha256:..."; "" for the host's own programs."""
        return self._guest.image_digest

    @property
    def container(self) -> str:
        """Return the name of the sandbox's container; "" if it is in none."""
        return self._guest.name

    async def _run(self, request: dict[str, Any], blob: bytes, timeout_s: float, limit: int) -> ExecResult:
        if not (timeout_s > 0 and math.isfinite(timeout_s)):
            raise ValueError(f"timeout_s = {timeout_s!r} is not valid: give a number of seconds above 0.")
        if limit < 0:
            raise ValueError(f"max_output_bytes = {limit} is not valid: give 0 or more.")
        call, waited_s = SandboxCall(timeout_s) if active_limits.get() else None, 0.0
        timeout_s = timeout_s if call is None else call.timeout_s
        request.update(timeout=timeout_s, limit=limit)
        try:
            with self._busy:
                reply = await self._call(
                    request, blob, deadline_s=timeout_s + _GRACE_S, limit_s=timeout_s, max_blob=2 * limit
                )
            result = self._parse(exec_result, reply)
            waited_s = result.usage.waited_s
        except SandboxExhausted as error:
            stalled = self._guest.link.stalled
            text = f"{error}\n".encode()[:limit]
            return ExecResult(-signal.SIGKILL, stderr=text, timed_out=stalled, oom_killed=not stalled)
        finally:
            if call is not None:
                call.end(waited_s)
        self._waited_s += waited_s
        metering.record_usage(result.usage)
        if self._guest.missing:
            metering.record_missing(self._guest.missing)
        if result.timed_out:
            check_not_starved(result, timeout_s)
            if call is not None:
                await call.time_is_up()
        return result

    async def _file(self, operation: str, path: str, data: bytes = b"", *, max_blob: int = 0, **fields: Any) -> Reply:
        with uncounted():
            header, blob = await self._call(
                {"op": operation, "path": path, **fields}, data, deadline_s=_FILE_S, max_blob=max_blob
            )
        if "error" in header:
            raise self._parse(lambda reply: file_error(reply, path), header)
        return header, blob

    async def _call(self, request: dict[str, Any], blob: bytes = b"", **options: Any) -> Reply:
        """Call the guest. Raises: SandboxExhausted if agent code made the guest end."""
        guest = self._current()
        return await self._attributed(guest, guest.link.call(request, blob, **options))

    async def _attributed(self, guest: GuestHandle, work: Awaitable[T]) -> T:
        """Await work that needs the guest, and attribute its errors.

        Raises: SandboxExhausted instead of SandboxDied if the agent caused it; SandboxUnavailable instead of OSError
            if the host may open no more files.
        """
        try:
            with descriptors_available():
                return await work
        except SandboxDied as error:
            if guest.link.stalled:
                raise SandboxExhausted(_STALLED) from error
            if await guest.ran_out_of_memory():
                raise SandboxExhausted(_EXHAUSTED) from error
            raise

    def _current(self) -> GuestHandle:
        if self._owner != os.getpid():
            raise SandboxDied("This sandbox was created in another process. A forked process must create its own.")
        if self._resetting.locked():
            raise SandboxDied("This sandbox is being reset. Wait until reset() has returned.")
        return self._guest

    @property
    def _link(self) -> Link:
        return self._current().link

    def _parse(self, parse: Callable[[Any], T], reply: Any) -> T:
        """Parse a reply that a hostile guest may have written. An invalid reply ends the sandbox."""
        try:
            return parse(reply)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            reason = f"The sandbox sent an invalid reply ({type(error).__name__}: {error!s:.200}). It is closed."
            self._link.close(reason)
            raise SandboxDied(reason) from error


@asynccontextmanager
async def replaced_guest(sandbox: object) -> AsyncIterator[socket.socket | None]:
    """Replace a sandbox's guest by a socket, to check the host against a guest that has been taken over.

    Yields: the guest's end of the link; None for a sandbox without a guest process. Close the sandbox afterwards.
    """
    if not isinstance(sandbox, GuestSandbox):
        yield None
        return
    ours, guest = socket.socketpair()
    honest, sandbox._guest.link = sandbox._guest.link, Link(ours)
    try:
        yield guest
    finally:
        guest.close()
        honest.close("Its place was taken by a check.")
        await asyncio.sleep(0)
