"""Commands, session processes and channel processes, and how they are started, captured and killed."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from . import frames, identity, kernel, python, surroundings, teardown
from .counted_time import CountedTime
from .exit_watcher import ExitWatcher
from .priority import give_way

_PIPE_READ = 65_536
_ALL = -1
_ABOVE_RESERVED = 10  # the lowest number of a descriptor that `python.enter_child` does not replace
_HOME = "/work"
RESULT = (  # format of the header of a reply to a call: the JSON encoder would touch many objects
    b'{"id":%d,"exit":%d,"out":%d,"truncated":%b,"timed_out":%b,"oom":%b,"wall":%.6f,"cpu":%.6f,"peak":%d,"disk":%d,'
    b'"written":%d,"started":%d,"counted":%.6f}'
)
JSON = {False: b"false", True: b"true"}


class Capture:
    """One output stream of a job: the first `limit` bytes are kept, the rest is read and dropped here.

    It keeps the write end open too: otherwise the guest would wake up when the job closes its copy.
    """

    def __init__(self) -> None:
        self.read, self.write = identity.do_as_agent(
            os.pipe
        )  # belongs to the agent's user, so that programs can reopen it as /dev/stdout
        os.set_blocking(self.read, False)
        self.data, self.limit, self.truncated = bytearray(), 0, False

    def start(self, limit: int) -> None:
        self.data, self.limit, self.truncated = bytearray(), limit, False

    def pump(self, null: int) -> int:
        """Read the available bytes once.

        Args:
            null: a descriptor of /dev/null, to which bytes beyond the limit are moved.
        Returns: the number of bytes; 0 if there are none now.
        """
        try:
            if len(self.data) >= self.limit:
                taken = _drop(self.read, null)
                self.truncated |= taken > 0
            else:
                piece = os.read(self.read, _PIPE_READ)
                taken = len(piece)
                room = self.limit - len(self.data)
                self.data += piece[:room]
                self.truncated |= taken > room
        except BlockingIOError:
            return 0
        return taken

    def drain(self, null: int) -> None:
        """Read what the pipe holds, but no more than a full pipe, because a process may still be writing.

        `null`: a descriptor of /dev/null.
        """
        taken = 0
        while taken < 1 << 20:
            piece = self.pump(null)
            if not piece:
                return
            taken += piece

    def close(self) -> None:
        os.close(self.write)
        os.close(self.read)


def two_captures() -> tuple[Capture, Capture]:
    """Return captures of standard output and error. Raises: OSError for lack of descriptors; neither stays open."""
    stdout = Capture()
    try:
        return stdout, Capture()
    except OSError:
        stdout.close()
        raise


def check_some_left(newest: int, most: int) -> None:
    """Check, before a job takes descriptors, that a quarter of all descriptors stays free for other requests.

    Args:
        newest: the descriptor opened last, which has the lowest number that was free.
        most: the limit of open descriptors, whose numbers are below it.
    Raises: OSError if `newest` is in the top quarter of these numbers.
    """
    if newest >= most * 3 // 4:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def _drop(pipe: int, null: int) -> int:
    """Read and discard what a pipe holds. `null`: a descriptor of /dev/null. Returns: the number of bytes."""
    if hasattr(os, "splice"):  # from Python 3.10 on
        return os.splice(pipe, null, 1 << 20)
    return len(os.read(pipe, _PIPE_READ))


class Process:
    """A child of the guest, with all its descendants. `handle`: becomes readable when the process has ended."""

    def __init__(self, pid: int, exit_watcher: ExitWatcher) -> None:
        self.pid, self.exit_watcher, self.handle = pid, exit_watcher, exit_watcher.handle(pid)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)  # the pid cannot be reused before it is waited for

    def wait(self) -> tuple[int, resource.struct_rusage]:
        """Wait for the process's end and release it. Returns: its wait status; the usage of the process and its waited
        children.

        Raises: TeardownStalled.
        """
        status, used = teardown.wait_for(self.pid)
        self.exit_watcher.forget(self.pid)
        os.close(self.handle)
        return status, used

    def cpu_s(self) -> float:
        """Processor time of this process so far, in seconds."""
        try:
            return time.clock_gettime(clock_of(self.pid))
        except OSError:
            return 0.0


@dataclass
class RunningCall:
    """A running request. In a session, the streams belong to the session."""

    id: int
    started: float
    time: CountedTime
    stdout: Capture
    stderr: Capture
    memory_kills: int
    process: Process
    session: Session | None = None
    cpu_before: float = 0.0
    kind: str = ""  # the kind of operation that was requested
    written_before: int = 0  # bytes that the session's process had written before
    started_before: int = 0  # processes and threads that had started in the whole sandbox before


@dataclass
class Session:
    """A Python process that keeps its variables between calls. `file`: holds the code of a call if it is long."""

    name: str
    process: Process
    calls: socket.socket
    file: int
    stdout: Capture
    stderr: Capture
    number: int = 0
    call: RunningCall | None = None


def fill(file: int, content: bytes, descriptors: list[int]) -> None:
    """Replace a file's content by `content`, or by what a descriptor from the host holds. Raises: OSError."""
    os.ftruncate(file, 0)
    if descriptors:
        size, copied = os.fstat(descriptors[0]).st_size, 0
        os.lseek(file, 0, os.SEEK_SET)
        while copied < size:
            sent = os.sendfile(file, descriptors[0], copied, size - copied)
            if not sent:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            copied += sent
        return
    written = 0
    while written < len(content):
        written += os.pwrite(file, content[written:], written)


def go_home() -> None:
    """Make /work the working directory, which all children inherit. Raises: OSError."""
    home = surroundings.real(_HOME)
    if os.getcwd() != home:
        identity.do_as_agent(lambda: os.chdir(home))


def spawn(argv: list[str], environment: dict[str, str], cwd: str | None, standard: tuple[int, int, int]) -> int:
    """Start a program by posix_spawn, which is three times as fast as a fork of the guest. Returns: its pid."""
    arguments = [os.fsencode(argument) for argument in argv]
    if surroundings.joining:
        return _fork_and_start(arguments, environment, cwd, standard)
    with identity.as_agent():
        try:
            if cwd is None:
                go_home()
            else:
                # agent code may have made the folder a link to something that the guest has open
                kernel.change_directory(surroundings.real(cwd))
            pid = os.posix_spawnp(
                arguments[0],
                arguments,
                environment,
                setsid=True,
                setsigdef=(signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT),
                file_actions=[(os.POSIX_SPAWN_DUP2, descriptor, number) for number, descriptor in enumerate(standard)],
            )
        finally:
            if cwd is not None:
                with contextlib.suppress(OSError):  # the agent may have closed it, which the next call will report
                    os.chdir(surroundings.real(_HOME))
        with contextlib.suppress(ProcessLookupError):
            give_way(pid)
    return pid


def _fork_and_start(
    arguments: list[bytes], environment: dict[str, str], cwd: str | None, standard: tuple[int, int, int]
) -> int:
    """Start a program in a fork that joins the tracer first, which `posix_spawn` cannot do. Returns: its pid.

    Raises: OSError if the program cannot be started.
    """
    if any(b"\0" in argument for argument in arguments):
        raise ValueError("embedded null byte")
    failed, low = os.pipe()
    report = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, _ABOVE_RESERVED)
    os.close(low)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if cwd is None:
        go_home()
    pid = os.fork()
    if pid == 0:
        with never_returning():
            try:
                python.enter_child(standard, most, keep=(report,))
                if cwd is not None:
                    kernel.change_directory(surroundings.real(cwd))
                for ignored in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
                    signal.signal(ignored, signal.SIG_DFL)
                os.execvpe(arguments[0], arguments, environment)
            except OSError as error:
                os.write(3, b"%d" % (error.errno or 0))
    os.close(report)
    with open(failed, "rb") as reading:
        number = reading.read()
    if number:
        os.waitpid(pid, 0)
        raise OSError(int(number), os.strerror(int(number)))
    return pid


def fork_trusted(work: Callable[[], None], out: tuple[int, int]) -> int:
    """Fork a child that does work for the guest; it writes any error to the second descriptor of `out`."""
    pid = os.fork()
    if pid == 0:
        with never_returning():
            os.dup2(out[1], 2)
            try:
                with identity.as_agent():
                    work()
            except (OSError, ValueError, KeyError, TypeError) as error:
                os.write(2, f"{type(error).__name__}: {error}".encode())
                os._exit(1)
            os._exit(0)
    return pid


@contextlib.contextmanager
def as_file(content: bytes, descriptors: list[int]) -> Iterator[list[int]]:
    """Yield a descriptor with the content: the descriptor that the host passed, if any, else a file in memory."""
    if descriptors:
        os.lseek(descriptors[0], 0, os.SEEK_SET)
        yield descriptors[:1]
        return
    descriptor = os.memfd_create("content") if content else os.open("/dev/null", os.O_RDONLY)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        if content:
            os.lseek(descriptor, 0, os.SEEK_SET)
        yield [descriptor]
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def never_returning() -> Iterator[None]:
    """End the forked child after the block, whatever happens, so that it never continues in the guest's code."""
    try:
        yield
    finally:
        os._exit(127)


@cache
def inherited_environment() -> dict[str, str]:
    """Return this process's environment as it was at the first call, which the spawner makes before it forks guests."""
    return dict(os.environ)


def clock_of(pid: int) -> int:
    """Return the number of a process's CPU-time clock, as the kernel computes it from the pid."""
    return (~pid << 3) | 2


def disk_used() -> int:
    """Return the bytes that files take in the writable areas."""
    if surroundings.folder:
        return surroundings.files_held().bytes
    used = 0
    for path in writable_areas():
        area = os.statvfs(path)
        used += (area.f_blocks - area.f_bfree) * area.f_frsize
    return used


@cache
def writable_areas() -> tuple[str, ...]:
    """Return one directory of each file system that the agent may write to; a container has several."""
    areas = map(surroundings.real, ("/tmp", "/dev/shm", "/work"))
    return tuple({os.stat(path).st_dev: path for path in areas}.values())


def children_of_init(handle: int | None) -> list[int]:
    """Return the pids of process 1's children: the processes that it started, and the orphans that it adopted."""
    if handle is not None:
        pieces, offset = [], 0
        while piece := os.pread(handle, 65_536, offset):
            pieces.append(piece)
            offset += len(piece)
        return [int(pid) for pid in b"".join(pieces).split()]
    own = os.getpid()
    return [pid for pid, parent in surroundings.parents().items() if parent == own]


def descendants(pid: int) -> list[int]:
    """Return a process and its descendants; those below a process that has ended are missing."""
    tree = surroundings.parents()
    pids, front = [pid], {pid}
    while front:
        front = {child for child, parent in tree.items() if parent in front and child not in pids}
        pids += front
    return pids


def kill_all(pids: Iterable[int], number: int = signal.SIGKILL) -> None:
    """Send processes of this sandbox a signal; some may have ended."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def signal_all(number: int) -> bool:
    """Signal every process in the sandbox but this one; the kernel prevents forks meanwhile.

    Where others have processes beside the sandbox's, each is signalled by itself, until no new one turns up.
    Returns: whether there was any, zombies included.
    """
    if surroundings.shares_pids:
        signalled: set[int] = set()
        while new := set(surroundings.agent_pids()) - signalled:
            kill_all(new, number)
            signalled |= new
        return bool(signalled)
    try:
        os.kill(_ALL, number)
    except ProcessLookupError:
        return False
    return True


def start_failure_reply(request: dict[str, Any], error: Exception) -> bytes:
    """Return the reply to a call that could not start. As in a shell: 127 if the program does not exist, else 126."""
    if isinstance(error, BlockingIOError):
        reason = "the process limit is reached"
    else:
        reason = getattr(error, "strerror", None) or str(error)
    name = request.get("argv", ["python"])[0]
    message = f"{name}: {reason}\n".encode("utf-8", "backslashreplace")[: request["limit"]]
    code, no = 127 if isinstance(error, FileNotFoundError) else 126, JSON[False]
    return frames.joined(RESULT % (request["id"], code, 0, no, no, no, 0, 0, 0, disk_used(), 0, 0, 0), message)
