"""Lets agent code name its folders /work and /tmp where no mount can put them there: its system calls are stopped, and
their paths replaced.

The tracer is the parent of the guest. Each process of agent code asks it to be traced, and all that it starts is traced
from its first instruction; a filter stops the calls that take paths, no others. When the tracer ends, the kernel kills
all that it traces. Nothing here protects anything: another thread may change a path after it was read. Landlock, which
checks the files that the kernel really opens, does.

A call that is changed is stopped once more at its end, because programs rely on the registers that they passed.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import time
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from . import kernel, landlock, metadata_calls, surroundings, traced_filter
from .architecture import CALLS, REGISTERS, numbers
from .traced_threads import CONTINUE, LISTEN, PAGE, TO_ITS_END, Threads, go_on, seize

_ARGUMENTS = REGISTERS.arguments
_GETCWD, _READLINKAT = CALLS["getcwd"], CALLS["readlinkat"]
_FIRST = """open stat lstat access execve truncate chdir mkdir rmdir creat unlink readlink chmod chown lchown utime
    mknod statfs utimes setxattr lsetxattr getxattr lgetxattr listxattr llistxattr removexattr lremovexattr"""
_SECOND = """openat mkdirat mknodat fchownat futimesat newfstatat unlinkat readlinkat fchmodat faccessat utimensat
    execveat statx openat2 faccessat2 fchmodat2"""
# by number: which arguments are paths
PATHS = {
    **dict.fromkeys(numbers(*_FIRST.split()), (0,)),
    **dict.fromkeys(numbers(*_SECOND.split()), (1,)),
    **dict.fromkeys(numbers("rename", "link", "symlink"), (0, 1)),
    **dict.fromkeys(numbers("renameat", "linkat", "renameat2"), (1, 3)),
    CALLS["symlinkat"]: (0, 2),
    _GETCWD: (),
}
_RESULTS = {_GETCWD: 0, _READLINKAT: 2, **dict.fromkeys(numbers("readlink"), 1)}  # which argument is a path's buffer
_STARTS = numbers("execve", "execveat")

_OPTIONS = 0x1 | 0x2 | 0x4 | 0x8 | 0x80 | 0x100000  # SYSGOOD, FORK, VFORK, CLONE, SECCOMP, EXITKILL
_AT_FILTER, _AT_STOP = 7, 128  # PTRACE_EVENT_SECCOMP, PTRACE_EVENT_STOP
_END_OF_CALL = signal.SIGTRAP | 0x80
_HERE = -100  # AT_FDCWD
_ALL_THREADS = 0x40000000  # __WALL
_STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_RED_ZONE = 128  # bytes below its stack that a program may use
_RETRY_S, _LONGEST_RETRY_S = 0.0001, 0.005
_ABOVE_RESERVED = 10  # the lowest number of a descriptor that `python.enter_child` does not replace

_tracer, _filter = 0, b""  # the tracer's pid, and the filter of agent code


def join_tracer(orders: int, rules: int) -> None:
    """Have this process traced, and take the rights from it that it must not have beside other processes. Call it
    before agent code runs.

    The descriptors, of the tracer's socket and of Landlock's rules, are closed. Raises: OSError.
    """
    os.write(orders, b"%d" % os.getpid())
    os.close(orders)
    status = os.open("/proc/self/status", os.O_RDONLY)
    pause_s = _RETRY_S
    while b"TracerPid:\t0\n" in os.pread(status, 1024, 0):
        os.kill(_tracer, signal.SIGUSR1)  # repeated, because a signal just before the tracer waits is lost
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_RETRY_S)
    os.close(status)
    landlock.enter(rules)
    os.close(rules)
    kernel.install_filter(_filter)


def start(serve: Callable[[], NoReturn], rules: int, *, shares_user: bool) -> NoReturn:
    """Fork the guest, which calls `serve`, and trace agent code until the guest ends.

    Args:
        rules: a descriptor of Landlock's rules for agent code.
        shares_user: whether the user of agent code has other files and processes.
    """
    global _tracer, _filter
    traced = (*PATHS, *metadata_calls.NUMBERS) if shares_user else tuple(PATHS)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    _tracer = os.getpid()
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    guest = os.fork()
    if guest == 0:
        ours.close()
        _filter = traced_filter.program(traced, (os.getpid(), _tracer), alone=not shares_user)
        surroundings.joining = (_above_reserved(theirs.detach()), _above_reserved(rules))
        surroundings.shares_pids = True
        serve()
    theirs.close()
    ours.setblocking(False)
    _Tracer(guest, ours, shares_user=shares_user).run()


def _above_reserved(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ABOVE_RESERVED)


class _Tracer:
    """Handles the stops of all processes of one sandbox."""

    def __init__(self, guest: int, orders: socket.socket, *, shares_user: bool) -> None:
        self.guest, self.orders, self.shares_user = guest, orders, shares_user
        self.folder, self.moved = os.fsencode(surroundings.folder), tuple(map(os.fsencode, surroundings.moved))
        self.threads = Threads()
        self.unfinished: dict[int, list[int]] = {}  # by thread: the registers before a call that was changed
        signal.signal(signal.SIGUSR1, lambda *_: self._admit())

    def run(self) -> NoReturn:
        while True:
            thread, status = os.waitpid(-1, _ALL_THREADS)
            if os.WIFSTOPPED(status):
                self._stopped(thread, os.WSTOPSIG(status), status >> 16)
                continue
            self.unfinished.pop(thread, None)
            if thread == self.guest:
                os._exit(0)  # the kernel kills everything that is traced

    def _admit(self) -> None:
        """Trace the processes that ask for it."""
        while True:
            try:
                message = self.orders.recv(32)
            except BlockingIOError:
                return
            if not message:
                return
            seize(int(message), _OPTIONS)

    def _stopped(self, thread: int, number: int, event: int) -> None:
        if event == _AT_FILTER:
            self._call_begins(thread)
        elif number == _END_OF_CALL:
            self._call_ends(thread)
        elif event == _AT_STOP and number in _STOPS:
            go_on(LISTEN, thread)
        else:
            go_on(TO_ITS_END if thread in self.unfinished else CONTINUE, thread, 0 if event else number)

    def _call_begins(self, thread: int) -> None:
        """Replace the paths of a call, or make the call for the thread."""
        before = self.threads.registers(thread)
        number, after, free = before[REGISTERS.number], list(before), before[REGISTERS.stack] - _RED_ZONE
        if self.shares_user and number in metadata_calls.NUMBERS:
            arguments = [before[register] for register in _ARGUMENTS]
            text, content = partial(self.threads.text, thread), partial(self.threads.read, thread)
            result = metadata_calls.perform(number, arguments, thread, text, content)
            self.threads.skip_call(thread, after, result)
            go_on(CONTINUE, thread)
            return
        for argument in PATHS.get(number, ()):
            path = self.threads.text(thread, before[_ARGUMENTS[argument]])
            if path is not None and self._is_moved(path):
                real = self.folder + path + b"\0"
                free = (free - len(real)) & ~7
                if self.threads.write(thread, free, real):
                    after[_ARGUMENTS[argument]] = free
        if after == before and number not in _RESULTS:
            go_on(CONTINUE, thread)
            return
        self.unfinished[thread] = before
        self.threads.set_registers(thread, after)
        go_on(TO_ITS_END, thread)

    def _call_ends(self, thread: int) -> None:
        """Restore what a changed call passed, and replace the path that it returns."""
        before = self.unfinished.pop(thread, None)
        if before is not None:
            after = self.threads.registers(thread)
            number, result = before[REGISTERS.number], ctypes.c_int64(after[REGISTERS.result]).value
            if number not in _STARTS or result < 0:  # a program that was just started has registers of its own
                for register in _ARGUMENTS:
                    if register != REGISTERS.result:
                        after[register] = before[register]
            if number in _RESULTS and result > 0:
                after[REGISTERS.result] = self._shortened(thread, before, result)
            self.threads.set_registers(thread, after)
        go_on(CONTINUE, thread)

    def _shortened(self, thread: int, before: list[int], length: int) -> int:
        """Take the folder out of a path that a call has returned. Returns: the new length."""
        number = before[REGISTERS.number]
        address, size = (before[_ARGUMENTS[_RESULTS[number] + which]] for which in (0, 1))
        path = (self.threads.read(thread, address, min(length, PAGE)) or b"").rstrip(b"\0")
        if not path.startswith(self.folder):
            return length
        if number != _GETCWD and length == size:  # it was cut, perhaps only because of the folder
            path = self._target(thread, before) or path
        seen = path[len(self.folder) :]
        if not self._is_moved(seen):
            return length
        seen = seen + b"\0" if number == _GETCWD else seen[:size]
        return len(seen) if self.threads.write(thread, address, seen) else length

    def _target(self, thread: int, before: list[int]) -> bytes | None:
        """Return the whole target of the link that a call of readlink or readlinkat has read; None if it is gone."""
        (which,) = PATHS[before[REGISTERS.number]]
        name = os.fsdecode(self.threads.text(thread, before[_ARGUMENTS[which]]) or b"")
        folder = ctypes.c_int(before[_ARGUMENTS[0]] & 0xFFFFFFFF).value if which else _HERE
        if not name.startswith("/"):
            name = f"/proc/{thread}/{'cwd' if folder == _HERE else f'fd/{folder}'}/{name}"
        try:
            return os.fsencode(os.readlink(surroundings.real(name)))
        except OSError:
            return None

    def _is_moved(self, path: bytes) -> bool:
        if not path.startswith(self.moved) or path.startswith(self.folder):
            return False
        return any(path.startswith(each) and path[len(each) : len(each) + 1] in (b"", b"/") for each in self.moved)
