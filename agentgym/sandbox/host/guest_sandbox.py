"""The sandbox contract, spoken to a guest over its link."""

from __future__ import annotations

import asyncio
import builtins
import math
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from agentgym.errors import SandboxDied
from agentgym.sandbox import metering
from agentgym.sandbox.contract import Connection, ExecResult, Snapshot, Usage
from agentgym.sandbox.host.channel import LineChannel
from agentgym.sandbox.host.guest_handle import GuestHandle
from agentgym.sandbox.host.link import Link, Reply
from agentgym.sandbox.host.replies import exec_result, file_error, usage_of, whole_number
from agentgym.sandbox.host.sessions import SessionCall, SessionLog
from agentgym.sandbox.host.snapshots import receive_files
from agentgym.sandbox.limits import SandboxSpec

_MIB = 2**20
_GRACE_S = 5.0  # how much longer than the guest's own limit the host waits
_FILE_S = 60.0
_READ_PIECE = 4 * _MIB
_MAX_NAMES = 8 * _MIB

T = TypeVar("T")


class GuestSandbox:
    """One sandbox. Calls may run at the same time; calls to one session queue up."""

    def __init__(
        self, spec: SandboxSpec, backend: str, guest: GuestHandle, make_guest: Callable[[], Awaitable[GuestHandle]]
    ) -> None:
        """`make_guest` makes another machine as this one was when it was made."""
        self._spec, self._backend, self._make_guest = spec, backend, make_guest
        self._guest = guest
        self._sessions: dict[str, asyncio.Lock] = {}
        self._channels: builtins.list[LineChannel] = []
        self._owner = os.getpid()
        self._log = SessionLog()
        self._busy = metering.BusyTime()
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
        """Run a command to its end. Exit code 127 if there is no such program, 126 if it cannot be run.

        What it leaves running is killed. Raises: SandboxDied; ValueError for an argv or timeout that makes no sense.
        """
        if isinstance(argv, str | bytes) or not argv:
            raise ValueError(f"argv is {argv!r}: a list, the program first. For a shell: ['sh', '-c', text].")
        request = {"op": "exec", "argv": [str(part) for part in argv], "cwd": cwd, "env": dict(env or {})}
        return await self._run(request, stdin, timeout_s, max_output_bytes)

    async def run_python(
        self, code: str, *, session: str | None = None, timeout_s: float = 30, max_output_bytes: int = 65_536
    ) -> ExecResult:
        """Run Python in a fork of the warm interpreter. A session that times out, or is cancelled, starts anew."""
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
        """Content of a regular file. A link is followed only where it stays in the writable area."""
        pieces: list[bytes] = []
        done = 0
        while True:
            most = min(_READ_PIECE, max_bytes)
            header, piece = await self._file("read", path, max_blob=most, offset=done, most=most)
            size = self._trust(lambda reply: whole_number(reply, "size"), header)
            if size > max_bytes:
                raise ValueError(f"{path} holds {size} bytes; at most {max_bytes} were asked for.")
            pieces.append(piece)
            done += len(piece)
            if not piece or done >= size:
                return b"".join(pieces)

    async def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Replace a file's content, making its directories."""
        await self._file("write", path, bytes(data), mode=mode)

    async def list(self, path: str = ".") -> list[str]:
        _, names = await self._file("list", path, max_blob=_MAX_NAMES, most=_MAX_NAMES)
        return [name.decode("utf-8", "replace") for name in names.split(b"\0")] if names else []

    async def open_channel(self, argv: Sequence[str]) -> LineChannel:
        """Start a process that reads and writes JSON lines. Its standard error is kept for error messages."""
        channel = await LineChannel.open(self._link, [str(part) for part in argv])
        self._channels.append(channel)
        return channel

    async def snapshot(self) -> Snapshot:
        """The files under /work and /tmp. Everything in the sandbox stands still meanwhile.

        Live processes and the variables of sessions are not in it; `sessions.replay` makes sessions anew. A sandbox
        that was itself made from a snapshot hands over only what has changed since.
        """
        guest = self._current()
        return await receive_files(guest, self._backend, self._spec, _FILE_S, below=guest.base_snapshot)

    async def reset(self) -> None:
        """Back to the files it was created with; nothing of what ran in it stays. Calls under way get SandboxDied.

        In place if that leaves no trace, else by exchanging the machine for a fresh one.
        """
        self._current()
        async with self._resetting:
            self._drop_channels()
            self._sessions.clear()
            self._log, self._busy = SessionLog(), metering.BusyTime()
            if await self._guest.reset_in_place():
                return
            await self._guest.close()
            if self._closed:
                raise SandboxDied("The sandbox was closed.")
            guest = await self._make_guest()
            self._guest = guest
            if self._closed:  # meanwhile
                await guest.close()

    async def usage(self) -> Usage:
        header, _ = await self._link.call({"op": "usage"}, deadline_s=_GRACE_S)
        return replace(self._trust(usage_of, header), wall_s=self._busy.seconds)

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
        """The calls that made the sessions of now, for `sessions.replay`."""
        return self._log.copy()

    @property
    def missing(self) -> dict[str, str]:
        """Limits of the spec that this machine does not enforce, with the reason; only with `insecure_ok`."""
        return self._guest.missing

    @property
    def connections(self) -> tuple[Connection, ...]:
        """What it asked of its network since it was made or reset, in order; kept after its end. Empty without one."""
        network = self._guest.network
        return () if network is None else network.connections

    @property
    def image_digest(self) -> str:
        """Which image its files are of, as "sha256:..."; "" for the host's own programs."""
        return self._guest.image_digest

    async def _run(self, request: dict[str, Any], blob: bytes, timeout_s: float, limit: int) -> ExecResult:
        if not (timeout_s > 0 and math.isfinite(timeout_s)):
            raise ValueError(f"timeout_s is {timeout_s!r}: a number of seconds above 0 is needed.")
        if limit < 0:
            raise ValueError(f"max_output_bytes is {limit}: 0 or more is needed.")
        request.update(timeout=timeout_s, limit=limit)
        with self._busy:
            reply = await self._link.call(request, blob, deadline_s=timeout_s + _GRACE_S, max_blob=2 * limit)
        result = self._trust(exec_result, reply)
        metering.record_usage(result.usage)
        return result

    async def _file(self, operation: str, path: str, data: bytes = b"", *, max_blob: int = 0, **fields: Any) -> Reply:
        header, blob = await self._link.call(
            {"op": operation, "path": path, **fields}, data, deadline_s=_FILE_S, max_blob=max_blob
        )
        if "error" in header:
            raise self._trust(lambda reply: file_error(reply, path), header)
        return header, blob

    def _current(self) -> GuestHandle:
        if self._owner != os.getpid():
            raise SandboxDied("This sandbox was made in another process; a forked process must make its own.")
        if self._resetting.locked():
            raise SandboxDied("This sandbox is being reset.")
        return self._guest

    @property
    def _link(self) -> Link:
        return self._current().link

    def _trust(self, reading: Callable[[Any], T], reply: Any) -> T:
        """Read a reply that a hostile guest may have written; what is none ends the sandbox."""
        try:
            return reading(reply)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            reason = f"The sandbox sent a reply that is none ({type(error).__name__}: {error!s:.200}). It is closed."
            self._link.close(reason)
            raise SandboxDied(reason) from error
