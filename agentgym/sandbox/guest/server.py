"""Process 1 of a sandbox: receives requests from the host, carries them out, and replies.

One thread, one event loop, any number of concurrent calls. The agent's processes have the guest's user id. They cannot
reach it because it is process 1 (signals from inside are ignored), undumpable (no tracing, no /proc/1/mem), and because
none of its descriptors is open where agent code runs.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from typing import Any, NoReturn

from . import archive, files, frames, identity, jobs, packing, python, surroundings
from .metering import number_after, written_by
from .oom_score import OomScore
from .poller import READ, WRITE, Poller
from .runner import Runner
from .teardown import TeardownStalled
from .watchdog import Watchdog

_MAX_REQUEST = 1 << 26
_LAST_WORD_S = 1.0


def refuse(control: socket.socket, text: str) -> NoReturn:
    """Tell the host why no sandbox can be made, and end."""
    control.sendall(frames.encode({"id": 0, "error": "setup", "text": text}))
    os._exit(1)


def is_python_call(start: bytes) -> bool:
    """Return whether a request's first bytes are those of a Python call that a preforked child can serve."""
    return start[8:22] == b'{"op":"python"' and frames.PREFIX.unpack_from(start)[1] < python.MAX_INLINE_CODE


def greeting(spec: dict[str, Any]) -> bytes:
    """Return the first frame to the host: it says that the guest runs, and which limits are not enforced."""
    return frames.encode({"id": 0, "missing": spec["missing"]})


def serve(
    control: socket.socket,
    spec: dict[str, Any],
    memory: tuple[int, int] | None,
    changes: int = -1,
    oom_score: int = -1,
    *,
    python_first: bool = False,
) -> NoReturn:
    """Answer requests until the host closes the socket. The greeting has been sent already.

    Args:
        memory: descriptors of the counter of memory kills and of the peak.
        changes: descriptor of the directory with the changes to the layers; -1 without layers.
        oom_score: descriptor of this process's oom_score_adj; -1 without one.
        python_first: whether the first request, which has arrived, is a Python call.
    """
    guest = Guest(control, spec, memory, changes, oom_score, python_first=python_first)
    try:
        guest.run()
    except TeardownStalled:
        guest.give_up()
    except (BrokenPipeError, ConnectionResetError):
        pass
    finally:
        os._exit(0)  # the kernel then kills everything else in the pid namespace


class Guest:
    """Process 1 of a sandbox: reads requests from the host's socket, carries them out, and sends the replies."""

    def __init__(
        self,
        control: socket.socket,
        spec: dict[str, Any],
        memory: tuple[int, int] | None,
        changes: int = -1,
        oom_score: int = -1,
        *,
        python_first: bool = False,
    ) -> None:
        self.control, self.memory, self.changes = control, memory, changes
        self.poller = Poller()
        self.environment: dict[str, str] = spec["environment"]
        if self.environment != jobs.inherited_environment():
            os.environ.clear()
            os.environ.update(self.environment)
        self.runner = Runner(
            self.poller,
            self._answer,
            self._memory_kills,
            OomScore(oom_score),
            cores=spec["cores"],
            tell_late=self._tell_late,
            python_first=python_first,
        )
        self.requests = frames.FrameReader(_MAX_REQUEST, _MAX_REQUEST)
        self.descriptors: list[int] = []
        self.out, self.congested = bytearray(), False
        self.unanswered: set[int] = set()
        self.watchdog = Watchdog(spec, self.runner)
        control.setblocking(False)
        self.poller.add(control.fileno(), self._receive)

    def run(self) -> None:
        while True:
            self.run_once()

    def run_once(self) -> None:
        """Wait for the next event or deadline, and handle it."""
        wait_s, watchdog_s = self.runner.next_timeout_s(), self.watchdog.due_s()
        if watchdog_s is not None:
            wait_s = watchdog_s if wait_s is None else min(wait_s, watchdog_s)
        self.poller.once(wait_s)
        self.runner.kill_overdue()
        self.watchdog.check()

    def give_up(self) -> None:
        """Tell the host that this sandbox cannot continue because of what agent code left behind."""
        self.control.settimeout(_LAST_WORD_S)
        self.control.sendall(bytes(self.out) + frames.encode({"stalled": True}))

    # Requests and replies

    def _receive(self) -> None:
        data, descriptors = frames.receive(self.control, frames.READ_BYTES, 8)
        if not data:
            os._exit(0)
        self.descriptors += descriptors
        self.requests.feed(data)
        while (frame := self.requests.next()) is not None:
            self._handle(*frame)

    def _handle(self, request: dict[str, Any], blob: bytes) -> None:
        count = request["fds"]
        if request["op"] != "cancel":  # a cancellation is answered by the call that it ends
            self.unanswered.add(request["id"])
        descriptors, self.descriptors = self.descriptors[:count], self.descriptors[count:]
        try:
            _OPERATIONS[request["op"]](self, request, blob, descriptors)
        except OSError as error:
            self._reply(request["id"], error="os", errno=error.errno or errno.EIO, text=str(error.strerror or error))
        except (ValueError, MemoryError) as error:
            self._reply(request["id"], error="os", errno=errno.EINVAL, text=f"{type(error).__name__}: {error}")
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def _reply(self, number: int, blob: bytes = b"", **fields: Any) -> None:
        self._answer(number, frames.encode({"id": number, **fields}, blob))

    def _answer(self, number: int, frame: bytes) -> None:
        """Send the reply to a request. Each request gets one reply; after a failure half-way, a second is dropped."""
        if number in self.unanswered:
            self.unanswered.remove(number)
            self._put(frame)

    def _tell_late(self, number: int) -> None:
        """Tell the host that a request takes longer than its limit, because its code waits for a processor."""
        if number in self.unanswered and not self.out:
            self._put(frames.encode({"id": number, "late": True}))

    def _put(self, frame: bytes) -> None:
        waiting = bool(self.out)
        self.out += frame
        if not waiting:
            self._send()

    def _send(self) -> None:
        """Send as much as the socket accepts. While it is full, no request is read."""
        try:
            while self.out:
                del self.out[: self.control.send(self.out)]
        except BlockingIOError:
            pass
        if bool(self.out) != self.congested:
            self.congested = bool(self.out)
            self.poller.remove(self.control.fileno())
            handler, events = (self._send, WRITE) if self.congested else (self._receive, READ)
            self.poller.add(self.control.fileno(), handler, events)

    # Operations, by the name in a request

    def _exec(self, request: dict[str, Any], blob: bytes, descriptors: list[int]) -> None:
        environment = {**self.environment, **request["env"]}
        with jobs.as_file(blob, descriptors) as (stdin,):
            self.runner.run(
                request, lambda out: jobs.spawn(request["argv"], environment, request["cwd"], (stdin, *out))
            )

    def _python(self, request: dict[str, Any], blob: bytes, descriptors: list[int]) -> None:
        self.runner.run_python(request, _read_whole(descriptors[0]) if descriptors else blob)

    def _session(self, request: dict[str, Any], blob: bytes, descriptors: list[int]) -> None:
        self.runner.run_in_session(request, blob, descriptors)

    def _cancel(self, request: dict[str, Any], blob: bytes, descriptors: list[int]) -> None:
        self.runner.cancel(request["call"])

    def _channel(self, request: dict[str, Any], blob: bytes, descriptors: list[int]) -> None:
        """Start a process that talks to the host directly: the host's descriptors are its standard streams."""
        stream, errors = descriptors
        self.runner.start_channel(request["id"], request["argv"], self.environment, (stream, stream, errors))
        self._reply(request["id"])

    def _end_channel(self, request: dict[str, Any], blob: bytes, descriptors: list[int]) -> None:
        self.runner.end_channel(request["channel"])
        self._reply(request["id"])

    def _look_at(self, request: dict[str, Any], blob: bytes, descriptors: list[int]) -> None:
        """Tell the host whether a channel's process runs or waits for a processor, and its processor seconds."""
        is_ready, cpu_s = self.runner.state_of_channel(request["channel"])
        self._reply(request["id"], ready=is_ready, cpu=round(cpu_s, 6), cores=self.runner.cores)

    def _read(self, request: dict[str, Any], blob: bytes, descriptors: list[int]) -> None:
        with identity.as_agent():
            data, size = files.read(request["path"], request["offset"], request["most"])
        self._reply(request["id"], data, size=size)

    def _write(self, request: dict[str, Any], blob: bytes, descriptors: list[int]) -> None:
        with identity.as_agent():
            files.write(request["path"], blob, request["mode"], descriptors[0] if descriptors else None)
        self._reply(request["id"])

    def _list(self, request: dict[str, Any], blob: bytes, descriptors: list[int]) -> None:
        with identity.as_agent():
            names = b"\0".join(files.names(request["path"], request["most_names"]))
        if len(names) > request["most"]:
            raise OSError(errno.EFBIG, f"the names in the directory take {len(names)} bytes, more than are allowed")
        self._reply(request["id"], names)

    def _pack(self, request: dict[str, Any], blob: bytes, descriptors: list[int]) -> None:
        """Stream the writable files into the host's pipe, with all other processes stopped."""

        def work() -> None:
            if request["changes"]:
                os.fchdir(self.changes)
            else:
                os.chdir(surroundings.top())
            with open(descriptors[0], "wb", buffering=1 << 20, closefd=False) as out:
                packing.pack(out, changes=request["changes"])

        jobs.signal_all(signal.SIGSTOP)
        self.runner.run_trusted(request, work)

    def _unpack(self, request: dict[str, Any], blob: bytes, descriptors: list[int]) -> None:
        def work() -> None:
            os.chdir(surroundings.top())
            os.lseek(descriptors[0], 0, os.SEEK_SET)
            with open(descriptors[0], "rb", closefd=False) as source:
                archive.unpack(source, as_layer=False)

        self.runner.run_trusted(request, work)

    def _cpu_s(self) -> float:
        """Return the processor time of this process and of the ended processes."""
        ended, own = resource.getrusage(resource.RUSAGE_CHILDREN), resource.getrusage(resource.RUSAGE_SELF)
        return ended.ru_utime + ended.ru_stime + own.ru_utime + own.ru_stime

    def _usage(self, request: dict[str, Any], blob: bytes, descriptors: list[int]) -> None:
        processes = [pid for pid in surroundings.agent_pids() if pid != self.runner.prefork.pid]
        ended, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), self._cpu_s()
        written = self.runner.meter.written()
        for pid in processes:
            written += written_by(pid)
            with contextlib.suppress(OSError):
                seconds += time.clock_gettime(jobs.clock_of(pid))
        peak = max(ended.ru_maxrss, self.watchdog.peak // 1024)
        if self.memory is not None:
            peak = int(os.pread(self.memory[1], 64, 0)) // 1024
        self._reply(
            request["id"],
            cpu=round(seconds, 6),
            peak=peak,
            processes=len(processes),
            disk=jobs.disk_used(),
            written=written,
            started=self.runner.meter.started(),
        )

    def _listen(self, request: dict[str, Any], blob: bytes, descriptors: list[int]) -> None:
        hand_over_listener(descriptors[0], request["port"])
        self._reply(request["id"])

    def _memory_kills(self) -> int:
        """Return how many processes the kernel or the watchdog has killed for this sandbox's memory limit."""
        if self.memory is not None:
            return number_after(b"oom_kill ", os.pread(self.memory[0], 4096, 0))
        return self.watchdog.kills


_OPERATIONS: dict[str, Callable[[Guest, dict[str, Any], bytes, list[int]], None]] = {
    name: getattr(Guest, f"_{name}")
    for name in (
        "exec",
        "python",
        "session",
        "cancel",
        "channel",
        "end_channel",
        "look_at",
        "read",
        "write",
        "list",
        "pack",
        "unpack",
        "usage",
        "listen",
    )
}


def _read_whole(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb", closefd=False) as file:
        return file.read()


_BACKLOG = 64


def hand_over_listener(stream: int, port: int) -> None:
    """Listen on a port of the loopback, send the socket to the host, and keep no copy.

    The address stays in use while the host holds the socket: no program in the sandbox can pose as the host.
    """
    address = "127.0.0.1", port
    with socket.create_server(address, backlog=_BACKLOG) as listener, socket.socket(fileno=stream) as host:
        try:
            socket.send_fds(host, [b"l"], [listener.fileno()])
        finally:
            host.detach()  # the caller owns the descriptor
