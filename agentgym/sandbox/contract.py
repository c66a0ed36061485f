"""The sandbox contract: what every isolated machine does, whichever backend made it.

Timeouts, memory kills and non-zero exits are *results* (`ExecResult`). Only the infrastructure raises,
typed: `SandboxDied`, `SandboxUnavailable`, `LimitUnenforceable`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from agentgym.sandbox.limits import SandboxSpec


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call used, or a sandbox since it was made or reset. 0 where the kernel does not count it.

    Attributes:
        cpu_s: processor time, but of children whose parent ignores their end. `wall_s`: during which a call ran.
        peak_memory_mib: most memory held at once; of a call, by its largest process.
        processes: alive now, of a sandbox. `disk_bytes`: held by files now.
        written_bytes: given to write calls by processes that have ended or answered: files, pipes and sockets alike.
        started: processes and threads; of a call, all that were started in the sandbox while it ran.
    """

    cpu_s: float = 0.0
    peak_memory_mib: float = 0.0
    processes: int = 0
    disk_bytes: int = 0
    written_bytes: int = 0
    started: int = 0
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended. `exit_code` is negative for a signal, as in subprocess.

    `stdout` and `stderr` are at most the asked number of bytes each; `truncated` says that more was
    written and dropped at the source. `duration_s` is wall time inside the sandbox.
    """

    exit_code: int
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    timed_out: bool = False
    oom_killed: bool = False
    duration_s: float = 0.0
    usage: Usage = Usage()

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.timed_out

    @property
    def text(self) -> str:
        """Standard output, decoded; bytes that are no UTF-8 are replaced."""
        return self.stdout.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can enforce on this machine.

    Attributes:
        available: sandboxes can be made here at all; `reason` says why not, and what to do.
        level: `ns+cgroup`, `ns`, `container`, `process`.
        enforced: limits by name that are truly enforced. `missing`: those that are not, each with its remedy.
        watched: those missing that are watched instead: exceeded for moments, noticed, and seen to.
        snapshots: `snapshot` and `create(snapshot=...)` work.
    """

    available: bool
    level: str = ""
    enforced: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    snapshots: bool = False
    reason: str = ""
    watched: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Layer:
    """Files, or changes to the files of the layers below: an archive as `guest/archive.py` writes it.

    `digest` is a hash of all of `data`, times included; `snapshots.layer_of` makes it.
    """

    digest: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files under /work and /tmp of a sandbox at one moment: live processes are not captured, and neither are
    the variables of sessions (`sessions.replay` runs a session's code again).

    Plain data: any backend restores it, in any process. Snapshots are equal if their files are.

    Attributes:
        id: SHA-256 over the sorted paths, kinds, modes, link targets and contents of all files: equal files have equal
            ids, however they came about. Times do not count.
        backend: name of the backend that it was taken on.
        layers: the lowest first; the files are what is left when each is unpacked over those before.
        entries: digest of each file by its path, as bytes; from it a snapshot of changes gets its id.
    """

    id: str
    backend: str = field(compare=False)
    layers: tuple[Layer, ...] = field(compare=False)
    entries: Mapping[bytes, bytes] = field(repr=False, compare=False)

    @property
    def size_bytes(self) -> int:
        """Bytes of all layers together."""
        return sum(len(layer.data) for layer in self.layers)


@dataclass(frozen=True, slots=True)
class Running:
    """A sandbox alive on this machine, whoever made it.

    Attributes:
        id: what the backend knows it by. `owner`: pid of the process that made it, 0 if it is unknown or gone.
        image: "host", or what tells its image from others.
        orphaned: its owner is dead; `Backend.clean` ends it.
    """

    id: str
    backend: str
    image: str = "host"
    owner: int = 0
    orphaned: bool = False
    age_s: float = 0.0
    memory_mib: float = 0.0
    processes: int = 0


@dataclass(frozen=True, slots=True)
class Connection:
    """One request that a sandbox with a network made of its proxy.

    Attributes:
        host, port: where it wanted to go; empty and 0 if the request said nothing that can be read.
        allowed: it was on the list and led to a public address, or to one that the list names.
        bytes_sent, bytes_received: between the proxy and that server, TLS and all.
        reason: why it was refused or cut short; empty if neither.
    """

    host: str
    port: int
    allowed: bool
    bytes_sent: int = 0
    bytes_received: int = 0
    reason: str = ""


class Channel(Protocol):
    """A long-lived process inside the sandbox that speaks one JSON value a line."""

    async def request(self, message: Any, *, timeout_s: float = 30) -> Any:
        """Send one value and return the next line's value. Raises: SandboxDied, TimeoutError."""

    async def close(self) -> None: ...


@runtime_checkable
class Sandbox(Protocol):
    """One isolated machine. Paths are absolute or relative to `/work`, the writable area and working directory."""

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
        """Run a command to its end. On timeout the whole process tree is killed."""

    async def run_python(
        self, code: str, *, session: str | None = None, timeout_s: float = 30, max_output_bytes: int = 65_536
    ) -> ExecResult:
        """Run Python in a fresh fork of the warm interpreter; a `session` keeps its variables between calls."""

    async def read(self, path: str, *, max_bytes: int = 16 * 2**20) -> bytes:
        """Content of a regular file.

        Raises: FileNotFoundError, IsADirectoryError, PermissionError, ValueError if it is larger than `max_bytes`.
        """

    async def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Write a file, making its directories. Never follows a link out of the sandbox. Raises: OSError when full."""

    async def list(self, path: str = ".") -> list[str]:
        """Names in a directory, sorted; directories end with a slash."""

    async def open_channel(self, argv: Sequence[str]) -> Channel: ...

    async def snapshot(self) -> Snapshot: ...

    async def reset(self) -> None:
        """Back to how it was created: processes killed, sessions dropped, files gone."""

    async def usage(self) -> Usage: ...

    async def close(self) -> None:
        """Kill everything and leave nothing behind. May be called twice."""


@runtime_checkable
class Backend(Protocol):
    """Makes sandboxes. One instance serves a whole process and any number of event-loop tasks."""

    name: str

    async def create(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> Sandbox:
        """Raises: SandboxUnavailable, LimitUnenforceable."""

    async def probe(self) -> Capabilities: ...

    async def running(self) -> list[Running]:
        """Every sandbox of this kind on this machine, also those of other processes."""

    async def clean(self) -> list[str]:
        """Remove what dead owners left behind. Returns: one line for each thing removed."""

    async def close(self) -> None: ...
