"""Keeps track of what runs: calls with their deadlines, sessions, channels, and the processes each leaves behind.

A session or channel process is a subreaper and adopts its own orphans. So every child of process 1 was either started
by the guest or left behind by a command. Such leftovers are killed as soon as no command runs that could own them.
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
from functools import partial
from typing import Any

from . import frames, jobs, kernel, leftovers, python
from .counted_time import CountedTime
from .exit_watcher import ExitWatcher
from .jobs import Capture, Process, RunningCall, Session
from .metering import Meter, peak_kib, written_by
from .oom_score import OomScore
from .poller import Poller
from .prefork import PYTHON, Prefork
from .readiness import state_below

_SESSION = "session"
_FREEZING = "pack"  # while this operation runs, all other processes are stopped


class Runner:
    """Everything that runs in the sandbox on request: commands, Python calls, sessions and channels."""

    def __init__(
        self,
        poller: Poller,
        answer: Callable[[int, bytes], None],
        memory_kills: Callable[[], int],
        oom_score: OomScore,
        *,
        cores: float,
        tell_late: Callable[[int], None],
        python_first: bool = False,
    ) -> None:
        """Create a runner. `tell_late` is called when a call waits for one of the `cores`, to tell the host.

        `python_first`: the first request is a Python call, whose process is forked while the rest is set up.
        """
        self.poller, self.answer, self.memory_kills, self.oom_score = poller, answer, memory_kills, oom_score
        self.cores, self.tell_late = cores, tell_late
        self.calls: dict[int, RunningCall] = {}
        self.sessions: dict[str, Session] = {}
        self.channels: dict[int, Process] = {}
        self.exit_watcher = ExitWatcher()
        self.dev_null = os.open("/dev/null", os.O_RDWR)
        self.max_descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]  # read before agent code can lower it
        self.prefork = Prefork(poller, self.exit_watcher)
        if python_first:
            self.prefork.fork(self._fork_waiting, self._watch_call)
        self.meter = Meter()
        try:
            self._children: int | None = os.open("/proc/thread-self/children", os.O_RDONLY)
        except OSError:  # a kernel may be built without this
            self._children = None

    def next_timeout_s(self) -> float | None:
        """Return the seconds until something must be done even if no event comes; None if nothing must."""
        timeout_s = self.prefork.due_in_s()
        for call in self.calls.values():
            due_s = max(call.time.due - time.monotonic(), 0.0)
            timeout_s = due_s if timeout_s is None else min(timeout_s, due_s)
        return self.exit_watcher.limit_timeout(timeout_s, busy=bool(self.calls))

    def is_active(self) -> bool:
        """Whether agent code may be running now."""
        return bool(self.calls or self.sessions or self.channels)

    def is_frozen(self) -> bool:
        """Whether all of the agent's processes are stopped, and must stay stopped."""
        return any(call.kind == _FREEZING for call in self.calls.values())

    def kill_overdue(self) -> None:
        """Kill the calls that have used up their time, and tell the host which ones are late because they wait."""
        self.exit_watcher.poll()
        self.prefork.drop_if_stale()
        for call in tuple(self.calls.values()):
            if call.time.due <= time.monotonic():
                self._look_at(call)
        if not self.calls:
            self._prefork_if_due()

    def _look_at(self, call: RunningCall) -> None:
        is_ready, cpu_s = state_below(call.process.pid, self._owners() if call.session is None else None)
        call.time.look(time.monotonic(), is_ready=is_ready, cpu_s=cpu_s)
        if call.time.is_over:
            self._finish(call, timed_out=True)
        elif call.time.is_late:
            self.tell_late(call.id)

    def _prefork_if_due(self) -> None:
        forked = self.prefork.fork_if_due(self._fork_waiting, self._watch_call)
        self.meter.count_starts(-forked)

    def cancel(self, number: int) -> None:
        if number in self.calls:
            self._finish(self.calls[number], timed_out=True)

    # One-off commands

    def run(self, request: dict[str, Any], start: Callable[..., int], *arguments: Any, trusted: bool = False) -> None:
        """Run a child and capture its output until it ends, its time is over, or the host cancels the call.

        Args:
            start: starts the child, given the descriptors of its two outputs and the arguments. Returns: its pid.
            trusted: the child runs the guest's own code.
        """
        kind = request["op"]
        if kind != PYTHON:
            self.prefork.call_begins(kind)
        started, kills, pids = time.monotonic(), self.memory_kills(), self.meter.started()
        try:
            stdout, stderr = jobs.two_captures()
        except OSError as error:
            self.answer(request["id"], jobs.start_failure_reply(request, error))
            return
        try:
            begin = start if trusted else partial(self._start_process, start)
            process = Process(begin((stdout.write, stderr.write), *arguments), self.exit_watcher)
        except (OSError, ValueError) as error:
            stdout.close()
            stderr.close()
            self.answer(request["id"], jobs.start_failure_reply(request, error))
            return
        limit = CountedTime(request["timeout"], started, share=self.cores)
        call = RunningCall(request["id"], started, limit, stdout, stderr, kills, process)
        call.kind, call.started_before = kind, pids
        stdout.limit = stderr.limit = request["limit"]
        self.calls[call.id] = call
        self._watch_call(call)

    def run_python(self, request: dict[str, Any], code: bytes) -> None:
        """Run Python code in the preforked child, if there is one, else in a fork."""
        self.prefork.call_begins(PYTHON)
        call = None if self.calls else self.prefork.take(code, self.memory_kills, self.meter)
        if call is None:
            self.run(request, self._fork_python, code)
            return
        call.id, call.started = request["id"], time.monotonic()
        call.time = CountedTime(request["timeout"], call.started, share=self.cores, cpu_s=call.process.cpu_s())
        call.stdout.start(request["limit"])  # the reading then leaves out what a session has written meanwhile
        call.stderr.start(request["limit"])
        self.calls[call.id] = call

    def _fork_python(self, out: tuple[int, int], code: bytes) -> int:
        jobs.go_home()
        return python.fork_to_run(code, (self.dev_null, *out), self.max_descriptors)

    def _fork_waiting(self, out: tuple[int, int], code_socket: int) -> int:
        jobs.go_home()
        with self.oom_score.of_children():
            return python.fork_to_wait(code_socket, (self.dev_null, *out), self.max_descriptors)

    def _watch_call(self, call: RunningCall) -> None:
        """Watch a call's process, and capture its output."""
        for stream in (call.stdout, call.stderr):
            self.poller.add(stream.read, partial(stream.pump, self.dev_null))
        self.poller.add(call.process.handle, partial(self._finish, call))

    def run_trusted(self, request: dict[str, Any], work: Callable[[], None]) -> None:
        """Run the guest's own code in a child, so that the event loop stays free. The child stays undumpable."""
        self.run(request, partial(jobs.fork_trusted, work), trusted=True)

    def _start_process(self, start: Callable[..., int], *arguments: Any) -> int:
        """Start agent code in a child. If the process limit is reached, kill orphans and try once more."""
        try:
            with self.oom_score.of_children():
                return start(*arguments)
        except BlockingIOError:
            self._kill_orphans()
            with self.oom_score.of_children():
                return start(*arguments)

    def _capture(self, stream: Capture, limit: int) -> None:
        stream.start(limit)
        self.poller.add(stream.read, partial(stream.pump, self.dev_null))

    def _finish(self, call: RunningCall, *, timed_out: bool = False) -> None:
        """End a call whose process has ended or must end: kill what it left behind, collect its output, and reply."""
        if self.calls.pop(call.id, None) is None:
            self.prefork.drop()  # the preforked child died before its call
            return
        if call.session is not None:
            self._end_session(call.session)
        else:
            self.poller.remove(call.process.handle)
            if timed_out:
                self._kill_tree(call.process)
        written = self.meter.written()
        status, used = call.process.wait()
        if call.kind == _FREEZING:
            jobs.signal_all(signal.SIGCONT)
        self._kill_orphans()
        written = self.meter.written() - written - call.written_before
        seconds = used.ru_utime + used.ru_stime - call.cpu_before
        self._answer(call, os.waitstatus_to_exitcode(status), timed_out, seconds, used.ru_maxrss, written)
        for stream in (call.stdout, call.stderr):
            self.poller.remove(stream.read)
            stream.close()
        self._call_ended(call.kind)

    def _call_ended(self, kind: str) -> None:
        if not self.calls:
            self.prefork.call_ended(kind)
            self._prefork_if_due()

    def _answer(self, call: RunningCall, code: int, timed_out: bool, cpu_s: float, peak_kib: int, written: int) -> None:
        for stream in (call.stdout, call.stderr):
            stream.drain(self.dev_null)
        truncated = call.stdout.truncated or call.stderr.truncated
        oom = code != 0 and self.memory_kills() > call.memory_kills
        now = time.monotonic()
        header = jobs.RESULT % (
            call.id, code, len(call.stdout.data), jobs.JSON[truncated], jobs.JSON[timed_out], jobs.JSON[oom],
            now - call.started, max(cpu_s, 0.0), peak_kib, jobs.disk_used(), max(written, 0),
            self.meter.started() - call.started_before, call.time.counted_by(now),
        )  # fmt: skip
        self.answer(call.id, frames.joined(header, call.stdout.data + call.stderr.data))

    # Sessions

    def run_in_session(self, request: dict[str, Any], code: bytes, descriptors: list[int]) -> None:
        """Run code in a session's process, starting it if needed. Long code comes in a descriptor."""
        session = self.sessions.get(request["session"])
        if session is not None and session.call is not None:
            raise OSError(errno.EBUSY, f"session {session.name!r} is still busy with another call: wait for it")
        self.prefork.call_begins(_SESSION)
        kills, pids = self.memory_kills(), self.meter.started()
        if session is None:
            try:
                session = self._open_session(request["session"])
            except OSError as error:
                self.answer(request["id"], jobs.start_failure_reply(request, error))
                return
        started = time.monotonic()
        session.number += 1
        before_s = session.process.cpu_s()
        limit = CountedTime(request["timeout"], started, share=self.cores, cpu_s=before_s)
        call = session.call = self.calls[request["id"]] = RunningCall(
            request["id"], started, limit, session.stdout, session.stderr, kills,
            session.process, session, before_s, written_before=written_by(session.process.pid),
            started_before=pids, kind=_SESSION,
        )  # fmt: skip
        for stream in (call.stdout, call.stderr):
            self._capture(stream, request["limit"])
        try:
            inline = b"" if descriptors or len(code) > python.MAX_INLINE_CODE else code
            if not inline:
                jobs.fill(session.file, code, descriptors)
            session.calls.send(python.SESSION_REQUEST.pack(session.number) + inline)
        except OSError:  # agent code has broken the request loop, sealed the file, or used up the memory
            session.process.kill()

    def _open_session(self, name: str) -> Session:
        with contextlib.ExitStack() as cleanup:
            stdout, stderr = jobs.two_captures()
            cleanup.callback(stdout.close)
            cleanup.callback(stderr.close)
            # messages, not a stream: what agent code writes to it cannot shift the messages that follow
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            cleanup.callback(ours.close)
            file = os.memfd_create("code")
            cleanup.callback(os.close, file)

            def start() -> int:
                jobs.go_home()
                pid = os.fork()
                if pid == 0:
                    with jobs.never_returning():
                        kernel.adopt_orphans()
                        streams, keep = (self.dev_null, stdout.write, stderr.write), (theirs.detach(), file)
                        python.enter_child(streams, self.max_descriptors, keep)
                        python.run_session(python.MAX_INLINE_CODE)
                return pid

            with theirs:
                jobs.check_some_left(max(theirs.fileno(), file), self.max_descriptors)
                process = Process(self._start_process(start), self.exit_watcher)
            cleanup.pop_all()
        ours.setblocking(False)
        session = self.sessions[name] = Session(name, process, ours, file, stdout, stderr)
        self.poller.add(ours.fileno(), lambda: self._session_replied(session))
        self.poller.add(process.handle, lambda: self._session_ended(session))
        return session

    def _session_replied(self, session: Session) -> None:
        try:
            reply = session.calls.recv(python.SESSION_REPLY.size + 1)
        except (BlockingIOError, ConnectionResetError):
            return
        call = session.call
        if not reply:
            self.poller.remove(session.calls.fileno())  # the session's end, or the deadline, follows
            return
        if call is None or len(reply) != python.SESSION_REPLY.size:
            return  # forged by agent code
        number, code = python.SESSION_REPLY.unpack(reply)
        if number != session.number:
            return
        session.call = None
        del self.calls[call.id]
        for stream in (call.stdout, call.stderr):
            self.poller.remove(stream.read)  # later output of its threads waits in the pipe until the next call
        pid = session.process.pid
        self._answer(
            call, max(min(code, 255), -255), False, session.process.cpu_s() - call.cpu_before, peak_kib(pid),
            written_by(pid) - call.written_before,
        )  # fmt: skip
        self._call_ended(_SESSION)

    def _session_ended(self, session: Session) -> None:
        """Record that the session's process has ended."""
        if session.call is not None:
            self._finish(session.call)
            return
        self._end_session(session)
        session.process.wait()
        session.stdout.close()
        session.stderr.close()
        self._kill_orphans()

    def _end_session(self, session: Session) -> None:
        """Kill a session and everything below it. The caller still has to wait for it and close its streams."""
        del self.sessions[session.name]
        self.poller.remove(session.calls.fileno())
        self.poller.remove(session.process.handle)
        session.calls.close()
        os.close(session.file)
        self._kill_tree(session.process)

    # Channels

    def start_channel(
        self, number: int, argv: list[str], environment: dict[str, str], standard: tuple[int, int, int]
    ) -> None:
        arguments = [os.fsencode(argument) for argument in argv]
        self.prefork.call_begins("channel")
        jobs.check_some_left(max(standard), self.max_descriptors)

        def start() -> int:
            jobs.go_home()
            pid = os.fork()
            if pid == 0:
                with jobs.never_returning():
                    kernel.adopt_orphans()
                    python.enter_child(standard, self.max_descriptors)
                    for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # ignored by Python, not by other programs
                        signal.signal(ignored, signal.SIG_DFL)
                    try:
                        os.execvpe(arguments[0], arguments, environment)
                    except OSError as error:
                        os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
            return pid

        process = self.channels[number] = Process(self._start_process(start), self.exit_watcher)
        self.poller.add(process.handle, lambda: self.end_channel(number))

    def end_channel(self, number: int) -> None:
        process = self.channels.pop(number, None)
        if process is not None:
            self.poller.remove(process.handle)
            self._kill_tree(process)
            process.wait()
            self._kill_orphans()

    def state_of_channel(self, number: int) -> tuple[bool, float]:
        """Return whether a channel's process, or one below it, is ready to run, and their processor seconds."""
        process = self.channels.get(number)
        return (False, 0.0) if process is None else state_below(process.pid)

    # Leftovers

    def _owners(self) -> set[int]:
        """Return the pids of all processes that should be alive now."""
        pids = {call.process.pid for call in self.calls.values()} | {channel.pid for channel in self.channels.values()}
        return pids | {session.process.pid for session in self.sessions.values()}

    def _kill_tree(self, process: Process) -> None:
        """Kill a process and everything below it; if nothing else runs, kill everything in the sandbox."""
        self.prefork.drop()
        leftovers.kill_tree(process.pid, alone=not self._owners() - {process.pid})

    def _kill_orphans(self) -> None:
        """Kill the processes that no call, session or channel owns."""
        if all(call.session is not None for call in self.calls.values()):
            leftovers.kill_orphans(self._children, self._owners() if self.is_active() else None)
