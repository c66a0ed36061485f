"""The default backend: Linux namespaces, seccomp and control groups, made in milliseconds and without a daemon.

    host process ──orders──> spawner ──makes──> process 1 of each sandbox: the guest ──forks──> agent code
         └────────────────── one socket per sandbox, requests and replies ──────────────┘

Not covered: holes in the kernel itself, side channels, fairness beyond control groups. Files written in the
sandbox live in memory and count against `memory_mib`.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import socket
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.errors import LimitUnenforceable, SandboxDied, SandboxError, SandboxUnavailable
from agentgym.sandbox.channel import LineChannel
from agentgym.sandbox.contract import Capabilities, ExecResult, Sandbox, Snapshot, Usage
from agentgym.sandbox.limits import SandboxSpec
from agentgym.sandbox.link import Link, Reply
from agentgym.sandbox.replies import exec_result, file_error, whole_number
from agentgym.sandbox.snapshots import receive_files, restorable
from agentgym.sandbox.spawner import Spawner

_MIB = 2**20
_GUEST_MEMORY = 32 * _MIB  # so that files alone can never fill the memory the guest needs to answer
_CREATE_S = 30.0
_CLOSE_S = 15.0
_GRACE_S = 5.0  # how much longer than the guest's own limit the host waits
_FILE_S = 60.0
_READ_PIECE = 4 * _MIB
_CREATIONS = 2 * (os.cpu_count() or 1)  # more at once only lengthens the queue

_REMEDIES = {
    "memory": "run as root, or with a delegated cgroup v2 subtree; else each process alone is limited, not their sum",
    "pids": "run as root, or with a delegated cgroup v2 subtree; else RLIMIT_NPROC stands in for it",
    "cpu": "run as root, or with a delegated cgroup v2 subtree; else only time limits bound processor use",
}


class NamespacesBackend:
    """Makes sandboxes out of namespaces. Works as root, or rootless with weaker limits if the spec accepts them."""

    name = "namespaces"

    def __init__(self) -> None:
        self._spawners: dict[tuple[str, ...], Spawner] = {}
        self._lock = threading.Lock()
        self._gates: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            weakref.WeakKeyDictionary()
        )
        self._sandboxes: weakref.WeakSet[NamespacesSandbox] = weakref.WeakSet()
        weakref.finalize(self, _end_spawners, self._spawners)

    async def create(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> Sandbox:
        """A fresh sandbox, with the files of a snapshot if one is given.

        Raises: LimitUnenforceable if this machine cannot enforce the spec's limits and the spec does not accept
            that; SandboxUnavailable if no sandbox can be made at all.
        """
        _check(spec, snapshot)
        sandbox = NamespacesSandbox(self, spec, snapshot)
        await sandbox._start()
        self._sandboxes.add(sandbox)
        return sandbox

    async def probe(self) -> Capabilities:
        """What this machine can do, found out by making a sandbox."""
        every = ("wall", "memory", "processes", "cpu", "disk", "inodes", "open_files", "output", "network")
        try:
            await (await self.create(SandboxSpec())).close()
        except LimitUnenforceable:
            missing = await self._missing()
            if isinstance(missing, str):
                return Capabilities(False, reason=missing)
            weaker = {"memory": "memory", "pids": "processes", "cpu": "cpu"}
            lost = [weaker[name] for name in missing if name != "pids"]
            return Capabilities(
                True, "ns", tuple(name for name in every if name not in lost),
                tuple((weaker[name], f"{why}: {_REMEDIES[name]}") for name, why in missing.items()), snapshots=True,
            )  # fmt: skip
        except SandboxUnavailable as error:
            return Capabilities(False, reason=str(error))
        return Capabilities(True, "ns+cgroup", every, snapshots=True)

    async def _missing(self) -> dict[str, str] | str:
        try:
            await (await self.create(SandboxSpec(insecure_ok=True))).close()
            await (await self.create(SandboxSpec())).close()
        except LimitUnenforceable as error:
            found: dict[str, str] = getattr(error, "missing", {})
            return found
        except SandboxUnavailable as error:
            return str(error)
        return {}

    async def close(self) -> None:
        """Close every sandbox and end the spawners. The backend may be used again afterwards."""
        await asyncio.gather(*(sandbox.close() for sandbox in list(self._sandboxes)))
        with self._lock:
            spawners = list(self._spawners.values())
            self._spawners.clear()
        for spawner in spawners:
            await asyncio.to_thread(spawner.close)

    def _spawner(self, preload: tuple[str, ...]) -> Spawner:
        with self._lock:
            spawner = self._spawners.get(preload)
            if spawner is None or not spawner.alive:
                if spawner is not None:
                    spawner.close()
                spawner = self._spawners[preload] = Spawner(preload)
            return spawner

    def _gate(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        with self._lock:
            return self._gates.setdefault(loop, asyncio.Semaphore(_CREATIONS))

    async def _make(self, spec: SandboxSpec, snapshot: Snapshot | None) -> _Machine:
        async with self._gate():
            try:
                machine = await self._order(spec)
            except ConnectionError:  # the spawner was killed; a new one can serve
                machine = await self._order(spec)
            if snapshot is not None:
                try:
                    await machine.unpack(snapshot)
                except BaseException:
                    await machine.close()
                    raise
            return machine

    async def _order(self, spec: SandboxSpec) -> _Machine:
        spawner = self._spawner(spec.preload)
        control, guest_end = socket.socketpair()
        lifeline, spawner_end = socket.socketpair()
        machine = _Machine(Link(control), lifeline)
        try:
            with guest_end, spawner_end:
                while True:
                    try:
                        spawner.order(_order_of(spec, spawner), guest_end, spawner_end)
                        break
                    except BlockingIOError:  # its queue is full
                        await asyncio.sleep(0.001)
                    except OSError as error:
                        raise ConnectionError("the spawner is gone") from error
            async with asyncio.timeout(_CREATE_S):
                header, _ = await machine.link.expect_greeting()
        except SandboxDied as error:
            verdict = await machine.verdict()
            await machine.close()
            if verdict is None and not spawner.alive:
                words = spawner.last_words()
                if not words:
                    raise ConnectionError("the spawner is gone") from error
                raise SandboxUnavailable(f"The spawner process ended:\n{words}") from error
            raise _refusal(verdict) from error
        except TimeoutError as error:
            await machine.close()
            raise SandboxUnavailable(f"No sandbox came up within {_CREATE_S:g} s: the machine is overloaded.") from error
        except BaseException:
            await machine.close()
            raise
        if "error" in header:
            await machine.close()
            raise _refusal({"kind": "unavailable", "text": str(header.get("text"))})
        return machine


class NamespacesSandbox:
    """One sandbox. Calls may run at the same time; calls to the same session queue up."""

    def __init__(self, backend: NamespacesBackend, spec: SandboxSpec, snapshot: Snapshot | None) -> None:
        self._backend, self._spec, self._origin = backend, spec, snapshot
        self._machine: _Machine | None = None
        self._sessions: dict[str, asyncio.Lock] = {}
        self._owner = os.getpid()

    async def _start(self) -> None:
        self._machine = await self._backend._make(self._spec, self._origin)

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
        """Run a command to its end. 127 if there is no such program, 126 if it cannot be run."""
        if isinstance(argv, str | bytes) or not argv:
            raise ValueError(f"argv is {argv!r}: a list of strings, the program first. For a shell: ['sh', '-c', text].")
        request = {"op": "exec", "argv": [str(part) for part in argv], "cwd": cwd, "env": dict(env or {})}
        return await self._run(request, stdin, timeout_s, max_output_bytes)

    async def run_python(
        self, code: str, *, session: str | None = None, timeout_s: float = 30, max_output_bytes: int = 65_536
    ) -> ExecResult:
        """Run Python in a fork of the warm interpreter. A session that times out or is cancelled loses its variables."""
        text = code.encode("utf-8", "surrogatepass")
        if session is None:
            return await self._run({"op": "python"}, text, timeout_s, max_output_bytes)
        async with self._sessions.setdefault(session, asyncio.Lock()):
            return await self._run({"op": "session", "session": session}, text, timeout_s, max_output_bytes)

    async def _run(self, request: dict[str, Any], blob: bytes, timeout_s: float, limit: int) -> ExecResult:
        if not (timeout_s > 0 and math.isfinite(timeout_s)):
            raise ValueError(f"timeout_s is {timeout_s!r}: a number of seconds above 0 is needed.")
        reply = await self._link.call(
            {**request, "timeout": timeout_s, "limit": limit}, blob,
            deadline_s=timeout_s + _GRACE_S, max_blob=2 * limit,
        )  # fmt: skip
        return self._trust(exec_result, reply)

    async def read(self, path: str, *, max_bytes: int = 16 * _MIB) -> bytes:
        pieces: list[bytes] = []
        done = 0
        while True:
            piece = min(_READ_PIECE, max_bytes)
            header, blob = await self._file("read", path, max_blob=piece, offset=done, most=piece)
            size = self._trust(lambda reply: whole_number(reply, "size"), header)
            if size > max_bytes:
                raise ValueError(f"{path} holds {size} bytes; at most {max_bytes} were asked for.")
            pieces.append(blob)
            done += len(blob)
            if not blob or done >= size:
                return b"".join(pieces)

    async def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        await self._file("write", path, bytes(data), mode=mode)

    async def list(self, path: str = ".") -> list[str]:
        most = 8 * _MIB
        _, blob = await self._file("list", path, max_blob=most, most=most)
        return [name.decode("utf-8", "replace") for name in blob.split(b"\0")] if blob else []

    async def _file(self, operation: str, path: str, data: bytes = b"", *, max_blob: int = 0, **fields: Any) -> Reply:
        header, blob = await self._link.call(
            {"op": operation, "path": path, **fields}, data, deadline_s=_FILE_S, max_blob=max_blob
        )
        if "error" in header:
            raise self._trust(lambda reply: file_error(reply, path), header)
        return header, blob

    async def open_channel(self, argv: Sequence[str]) -> LineChannel:
        """Start a process that reads and writes JSON lines. Its standard error is kept for error messages."""
        return await LineChannel.open(self._link, list(argv))

    async def snapshot(self) -> Snapshot:
        """The files under /work and /tmp. Everything in the sandbox stands still meanwhile."""
        most = self._spec.disk_mib * _MIB + self._spec.inodes * 1024 + _MIB
        return await receive_files(self._link, self._backend.name, most, _FILE_S)

    async def reset(self) -> None:
        """Exchange what is inside for a fresh one, with the files it was created with."""
        old = self._current()
        self._machine = await self._backend._make(self._spec, self._origin)
        self._sessions.clear()
        await old.close()

    async def usage(self) -> Usage:
        header, _ = await self._link.call({"op": "usage"}, deadline_s=_GRACE_S)
        return self._trust(
            lambda reply: Usage(
                float(reply["cpu"]), whole_number(reply, "peak") / 1024, whole_number(reply, "processes"),
                whole_number(reply, "disk"),
            ), header,
        )  # fmt: skip

    async def close(self) -> None:
        if self._machine is not None:
            if self._owner == os.getpid():
                await self._machine.close()
            else:
                self._machine.forget()

    def _current(self) -> _Machine:
        if self._machine is None or self._owner != os.getpid():
            raise SandboxDied("This sandbox was made in another process; a fork must make its own.")
        return self._machine

    @property
    def _link(self) -> Link:
        return self._current().link

    def _trust(self, reading: Any, reply: Any) -> Any:
        """Read a reply that a hostile guest may have written; what is no reply ends the sandbox."""
        try:
            return reading(reply)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            self._link.close(f"The sandbox sent a reply that is none ({error!r:.200}). It is closed.")
            raise SandboxDied(self._link.dead) from error


class _Machine:
    """What is behind a sandbox: the link to its guest, and the lifeline that the spawner holds the other end of."""

    def __init__(self, link: Link, lifeline: socket.socket) -> None:
        lifeline.setblocking(False)
        self.link, self._lifeline = link, lifeline
        self._closing: asyncio.Future[None] | None = None

    async def verdict(self) -> dict[str, str] | None:
        """What the spawner said about the sandbox's end, if it did."""
        try:
            async with asyncio.timeout(_GRACE_S):
                said = await asyncio.get_running_loop().sock_recv(self._lifeline, 65_536)
            return json.loads(said) if said else None
        except (OSError, TimeoutError, ValueError):
            return None

    async def unpack(self, snapshot: Snapshot) -> None:
        with restorable(snapshot) as descriptor:
            header, _ = await self.link.call(
                {"op": "unpack", "timeout": _FILE_S, "limit": 4096}, deadline_s=_FILE_S + _GRACE_S, max_blob=8192,
                descriptors=[descriptor],
            )  # fmt: skip
        if header.get("exit") != 0:
            raise SandboxUnavailable(
                f"The files of snapshot {snapshot.id[:12]} do not fit the sandbox: give its spec more disk_mib or inodes."
            )

    async def close(self) -> None:
        """Kill everything, and wait until the spawner says that nothing is left."""
        if self._lifeline.fileno() < 0:
            return
        loop = asyncio.get_running_loop()
        if self._closing is not None and not self._closing.done() and self._closing.get_loop() is loop:
            await asyncio.shield(self._closing)
            return
        self._closing = loop.create_future()
        try:
            self.link.close("The sandbox was closed.")
            try:
                self._lifeline.shutdown(socket.SHUT_WR)
                async with asyncio.timeout(_CLOSE_S):
                    while await loop.sock_recv(self._lifeline, 65_536):
                        pass
            except TimeoutError as error:
                raise SandboxError(f"The spawner did not end a sandbox within {_CLOSE_S:g} s.") from error
            except OSError:
                pass  # the spawner is gone, and the kernel has taken the sandbox with it
        finally:
            self.forget()
            self._closing.set_result(None)

    def forget(self) -> None:
        self.link.close("The sandbox was closed.")
        self._lifeline.close()


def _check(spec: SandboxSpec, snapshot: Snapshot | None) -> None:
    if spec.network:
        raise LimitUnenforceable(
            "SandboxSpec.network is True: the namespaces backend cannot bound what a sandbox reaches on a network, "
            "so it gives none. Leave network=False, and let tools on the host fetch what the agent may see."
        )
    if spec.image != "host":
        raise SandboxUnavailable(
            f"SandboxSpec.image is {spec.image!r}: the namespaces backend knows 'host' only, the host's own Python and "
            "programs, read-only. Another image needs another backend."
        )
    if snapshot is not None and snapshot.backend != NamespacesBackend.name:
        raise SandboxUnavailable(f"The snapshot was made by the backend {snapshot.backend!r}, and only that restores it.")


def _order_of(spec: SandboxSpec, spawner: Spawner) -> dict[str, Any]:
    disk = spec.disk_mib * _MIB
    return {
        "memory": max(spec.memory_mib * _MIB, disk + _GUEST_MEMORY),
        "address_space": spec.memory_mib * _MIB,  # used only where no control group bounds the sum
        "processes": spec.processes,
        "cores": spec.cpu_cores,
        "disk": disk,
        "inodes": spec.inodes,
        "open_files": spec.open_files,
        "environment": {**spawner.environment, **dict(spec.environment)},
        "insecure_ok": spec.insecure_ok,
    }


def _refusal(verdict: dict[str, str] | None) -> SandboxError:
    """The error for a sandbox that did not come up."""
    kind, text = (verdict or {}).get("kind", ""), (verdict or {}).get("text", "")
    if kind == "limit":
        missing: dict[str, str] = json.loads(text)
        listed = "; ".join(f"{name}: {why}. Remedy: {_REMEDIES[name]}" for name, why in missing.items())
        error = LimitUnenforceable(
            f"This machine cannot enforce every limit of the spec ({listed}). "
            "To accept that, for code you trust, set SandboxSpec.insecure_ok=True."
        )
        error.missing = missing  # type: ignore[attr-defined]
        return error
    return SandboxUnavailable(
        f"No sandbox can be made here: {text or 'the guest died while it was set up'}. The namespaces backend needs "
        "Linux 5.12 on x86_64 with user namespaces (sysctl user.max_user_namespaces above 0 and, where it exists, "
        "kernel.unprivileged_userns_clone=1 or kernel.apparmor_restrict_unprivileged_userns=0); in a container, start "
        "it with --security-opt seccomp=unconfined --security-opt systempaths=unconfined, or use another backend."
    )


def _end_spawners(spawners: dict[tuple[str, ...], Spawner]) -> None:
    for spawner in spawners.values():
        spawner.close()
