"""The sandbox contract, which every backend implements.

Timeouts, memory kills and non-zero exit codes are *results* (`ExecResult`). Exceptions mean that the infrastructure
failed (`SandboxDied`, `SandboxUnavailable`, `LimitUnenforceable`), that the agent has spoiled its own sandbox
(`FilesNotCaptured` and `SandboxExhausted`, both a ToolError), or that the call itself makes no sense (ValueError).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from agentgym.sandbox.limits import SandboxSpec


@dataclass(frozen=True, slots=True)
class Usage:
    """The resources used by one call, or by a sandbox since it was created or reset. A field is 0 if the kernel does
    not count it.

    Attributes:
        cpu_s: processor time in seconds, without that of children whose parent never waits for them (ignores SIGCHLD).
        peak_memory_mib: the most memory held at once, in MiB; for a call, the peak of its largest process.
        processes: processes alive now; only for a sandbox.
        disk_bytes: bytes held by files now.
        written_bytes: bytes passed to write calls, to files, pipes and sockets alike. A process counts once it has
            ended or, in a session, has answered.
        started: processes and threads started; for a call, all that were started in the sandbox while it ran.
        wall_s: seconds during which at least one call ran.
        waited_s: total seconds that calls waited for a processor; their time limits do not count these. Calls
            much shorter than their limit are not watched.
    """

    cpu_s: float = 0.0
    peak_memory_mib: float = 0.0
    processes: int = 0
    disk_bytes: int = 0
    written_bytes: int = 0
    started: int = 0
    wall_s: float = 0.0
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command or a Python call ended.

    Attributes:
        exit_code: 0 to 255; -N if signal N ended the process, as in subprocess.
        stdout, stderr: each at most the call's `max_output_bytes`.
        truncated: the output was longer. The rest was dropped inside the sandbox.
        timed_out: the call used its `timeout_s` up, and all its processes were killed.
        oom_killed: the call failed, and while it ran a process was killed because of the memory limit.
        duration_s: wall time in seconds, measured inside the sandbox.
        usage: what the call used.
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
        """Return whether the call ended in time with exit code 0."""
        return self.exit_code == 0 and not self.timed_out

    @property
    def text(self) -> str:
        """Return standard output as text; bytes that are not UTF-8 are replaced."""
        return self.stdout.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can enforce on this machine.

    Attributes:
        available: whether sandboxes can be created on this machine. If not, `reason` says why and what to do.
        level: what enforces the limits: `ns+cgroup` (namespaces and control groups), `ns` (namespaces alone),
            `container` or `process`.
        enforced: names of the limits that are enforced (see `LIMITS`).
        missing: limits that are not enforced, each with its remedy.
        watched: limits in `missing` that are monitored instead: a sandbox can exceed such a limit briefly before the
            backend notices and acts.
        snapshots: whether `snapshot` and `create(snapshot=...)` work.
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
    """Files, or changes to the files of the layers below, as one archive in the format of guest/archive.py.

    `digest` is a hash of all of `data`, times included; `snapshots.layer_of` makes it.
    """

    digest: str
    data: bytes = field(repr=False)


REMOVED = hashlib.sha256(b"w 0 0\n").digest()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files under /work and /tmp of a sandbox at one moment or, with a writable root, all changes to its image. It
    holds no processes and no session variables; `replay_sessions` runs the code of sessions again.

    Plain data: any backend restores it, in any process. Two snapshots are equal if their files are.

    Attributes:
        id: SHA-256 over the sorted paths, kinds, modes, link targets and contents of all files. Times do not count.
        backend: name of the backend that took the snapshot.
        layers: the lowest first. Unpacking each layer over the previous ones gives the files.
        entries: the digest of each file, by path. The id of a snapshot with changes to this one is computed from them.
        over_image: the layers are changes to an image. A file of the image that was removed has the digest REMOVED; a
            directory that hides one of the image has a second entry, whose name ends with a slash.
    """

    id: str
    backend: str = field(compare=False)
    layers: tuple[Layer, ...] = field(compare=False)
    entries: Mapping[bytes, bytes] = field(repr=False, compare=False)
    over_image: bool = False

    @property
    def size_bytes(self) -> int:
        """Return the total bytes of all layers."""
        return sum(len(layer.data) for layer in self.layers)


@dataclass(frozen=True, slots=True)
class Running:
    """A sandbox that is alive on this machine, created by any process.

    Attributes:
        id: the backend's name for it.
        image: "host", or the start of the image's digest or name.
        owner: pid of the process that created it; 0 if that is unknown or has ended.
        orphaned: its owner has ended. `Backend.clean` removes it.
        age_s: seconds since it was created. memory_mib: MiB in use. processes: number alive.
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
    """One request of a sandbox with a network to its proxy.

    Attributes:
        host, port: the requested destination; empty and 0 if the request could not be read.
        allowed: the destination was on the allow list and led to a public address, or to an address on the list.
        bytes_sent, bytes_received: between the proxy and the server, TLS included.
        reason: why the request was refused or ended early; empty if neither.
    """

    host: str
    port: int
    allowed: bool
    bytes_sent: int = 0
    bytes_received: int = 0
    reason: str = ""


class Channel(Protocol):
    """A long-lived process inside the sandbox that answers each line of JSON on its stdin with one on its stdout.

    Attributes:
        waited_s: total seconds that the process has waited for a processor. No time limit counts them.
    """

    waited_s: float

    async def request(self, message: Any, *, timeout_s: float = 30) -> Any:
        """Send one JSON value and return the value of the next line. Concurrent requests are sent one after another.

        Waiting for a processor does not count towards `timeout_s`.

        Raises: TimeoutError; HostOverloaded; SandboxDied if the process ended, or sent a line that is not JSON or
            larger than 16 MiB. After any error, and after cancelling, the channel is closed: replies could be mixed up.
        """

    async def close(self) -> None:
        """Kill the process and everything it started. May be called twice."""


@runtime_checkable
class Sandbox(Protocol):
    """One isolated machine. Paths are absolute or relative to `/work`, the writable area and working directory.

    Once the sandbox has ended, every call raises SandboxDied. A sandbox ends if it is closed, if its guest is killed,
    or if its answer is late or invalid. If the agent's code caused the end, the error is SandboxExhausted, but `exec`
    and `run_python` return a result instead: with `oom_killed` if the code used up the memory, with `timed_out` if it
    left so much behind that the kernel needs seconds of processor time to remove it. Cancelling a call kills its
    processes, and the sandbox stays usable. Calls may run concurrently.
    """

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
        """Run a command and wait for its end. No shell is involved; processes that the command leaves are killed.

        A failure of the command is a result, not an exception: exit code 127 if the program or `cwd` does not exist,
        126 if it cannot be run (not executable, a null character in `argv`, the process limit is reached).

        Args:
            argv: the program, then its arguments. A string is refused; for a shell pass ["sh", "-c", text].
            stdin: standard input, of any size; empty for none.
            cwd: working directory, by default /work.
            env: variables for this call, added to the spec's.
            timeout_s: seconds, above 0. When they are used up the command and all its descendants are killed, and
                the result has `timed_out` set and the output so far. Waiting for a processor does not count.
            max_output_bytes: limit per stream; the rest is dropped, and `truncated` is set.
        Raises: SandboxDied; HostOverloaded; ValueError for an empty or string `argv`, a timeout that is not a
            positive number, or a negative `max_output_bytes`.
        """

    async def run_python(
        self, code: str, *, session: str | None = None, timeout_s: float = 30, max_output_bytes: int = 65_536
    ) -> ExecResult:
        """Run Python code as `__main__` in a fork of the warm interpreter, which has the spec's `preload` imported.

        Args:
            code: the program. An uncaught exception prints its traceback to stderr and gives exit code 1.
            session: calls of one session run one at a time in one process, and keep their variables. A session that
                times out or is cancelled is killed, and its next call starts without variables.
            timeout_s, max_output_bytes: as for `exec`.
        Raises: SandboxDied; HostOverloaded; ValueError as `exec`.
        """

    async def read(self, path: str, *, max_bytes: int = 16 * 2**20) -> bytes:
        """Return the content of a regular file. Below /work and /tmp a link is followed only if it stays there.

        Raises: FileNotFoundError, IsADirectoryError, PermissionError; ValueError if it is larger than `max_bytes`;
            SandboxDied.
        """

    async def write(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """Create or replace a file, and create its missing directories. Never follows a link out of the sandbox.

        Raises: OSError, with errno ENOSPC when a disk limit is reached; SandboxDied.
        """

    async def list(self, path: str = ".") -> list[str]:
        """Return the names in a directory, sorted; a directory's name ends with a slash.

        Raises: FileNotFoundError, NotADirectoryError, PermissionError; SandboxDied.
        """

    async def open_channel(self, argv: Sequence[str]) -> Channel:
        """Start a process that speaks JSON lines on stdin and stdout, and lives until the channel is closed.

        A program that cannot be run, or that ends, is reported by the first `Channel.request`, with the end of its
        standard error.

        Raises: OSError if no process can be started; SandboxDied.
        """

    async def snapshot(self) -> Snapshot:
        """Return the files under /work and /tmp, to create other sandboxes from.

        Everything in the sandbox pauses meanwhile. Holes and hard links are kept.

        Raises: FilesNotCaptured if (1) the files exceed the spec's limits, (2) their sizes, holes included, add up to
            more than about twice `disk_mib`, or (3) folders are nested deeper than a path can name; SandboxError;
            SandboxDied.
        """

    async def reset(self) -> None:
        """Restore the state after `create`: processes killed, sessions and channels gone, files as they were.

        Calls that are still running raise SandboxDied.

        Raises: SandboxUnavailable if a new machine is needed and none can be made; SandboxDied.
        """

    @property
    def connections(self) -> tuple[Connection, ...]:
        """Return the network requests since the sandbox was created or reset, in order, even after its end."""

    async def usage(self) -> Usage:
        """Return what all processes of the sandbox have used since it was created or reset. Raises: SandboxDied."""

    async def close(self) -> None:
        """Kill everything and leave nothing behind. Running calls raise SandboxDied. May be called twice."""


@runtime_checkable
class Backend(Protocol):
    """Creates sandboxes. One instance serves a whole process, any number of tasks and event loops.

    A backend whose sandboxes can relay connections to one address of the host has the attribute `has_relay` = True, and
    its sandboxes the method `relay(address)`, which returns the address to connect to inside. Both are optional.

    Attributes:
        name: the registered name, for example `namespaces`.
    """

    name: str

    async def create(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> Sandbox:
        """Return a new sandbox, with the files of a snapshot if one is given. Cancelling leaves nothing behind.

        Raises: LimitUnenforceable if this machine cannot enforce every limit of the spec, and the spec does not
            accept that (`accept_weaker`); SandboxUnavailable, which says what to do, if no sandbox can be created.
        """

    async def probe(self) -> Capabilities:
        """Create a sandbox to find out what this backend can do on this machine. Raises nothing if that fails."""

    async def running(self) -> list[Running]:
        """Return every sandbox of this backend on this machine, including those of other processes."""

    async def clean(self) -> list[str]:
        """Remove the leftovers of ended processes. Returns: one line of text for each thing removed."""

    async def close(self) -> None:
        """Close every sandbox of this instance. The instance may be used again afterwards."""
