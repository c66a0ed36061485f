"""System calls as data: one process lists the calls, and another process executes them.

Forks share memory until they write to it, and Python writes to every object that it touches (reference counts). A
process that only executes a list keeps most of its pages shared: it is ready sooner and needs less memory.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from . import kernel
from .architecture import CALLS

# the error number to ignore (or 0), the call's number, its six arguments
Syscall = tuple[Any, ...]
PREVIOUS_RESULT: Any = ...  # as a first argument, it means the result of the previous call

_NAMES = {number: name for name, number in CALLS.items()}
_ARGUMENTS = 6
_HERE = -100  # AT_FDCWD
_RECURSIVE = 0x8000  # AT_RECURSIVE
_EMPTY_SOURCE = 4  # MOVE_MOUNT_F_EMPTY_PATH

_library = ctypes.PyDLL(None, use_errno=True)  # a separate instance, because argument types are set on it
_system_call = _library.syscall
_system_call.restype = ctypes.c_long
_system_call.argtypes = [ctypes.c_long, *[ctypes.c_void_p] * _ARGUMENTS]  # numbers and addresses, 64 bits each


def syscall(name: str, *arguments: int | str | bytes | None, ignored_errno: int = 0) -> Syscall:
    """Return a call for `execute`. `ignored_errno`: the error number that is not a failure; 0 for none."""
    encoded = [os.fsencode(argument) if isinstance(argument, str) else argument for argument in arguments]
    return ignored_errno, CALLS[name], *encoded, *[None] * (_ARGUMENTS - len(encoded))


def execute(syscalls: Iterable[Syscall]) -> int:
    """Make the calls in order. Returns: the result of the last. Raises: OSError naming the first call that failed."""
    result = 0
    for ignored_errno, number, first, *others in syscalls:
        result = _system_call(number, result if first is ... else first, *others)
        if result < 0:
            error = ctypes.get_errno()
            if error != ignored_errno:
                words = [_NAMES[number], *(os.fsdecode(text) for text in (first, *others) if isinstance(text, bytes))]
                raise OSError(error, os.strerror(error), " ".join(words)[:200])
    return result


def open_as(descriptor: int, path: str, flags: int, folder: int = _HERE) -> list[Syscall]:
    """Open a file under a descriptor number known in advance. A second descriptor stays open until `close_others`."""
    return [
        syscall("openat", folder, path, flags | os.O_CLOEXEC, 0),
        syscall("dup3", PREVIOUS_RESULT, descriptor, os.O_CLOEXEC),
    ]


def write(path: str, text: str, folder: int = _HERE) -> list[Syscall]:
    """Write to a file of /proc or of a control group, in one call."""
    return [
        syscall("openat", folder, path, os.O_WRONLY | os.O_CLOEXEC, 0),
        syscall("write", PREVIOUS_RESULT, text.encode(), len(text)),
    ]


def close_others(open_descriptors: Iterable[int]) -> Iterator[Syscall]:
    """Close every descriptor but 0 to 2 and these."""
    lowest = 3
    for descriptor in [*sorted(open_descriptors), 1 << 31]:
        if descriptor > lowest:
            yield syscall("close_range", lowest, descriptor - 1, 0)
        lowest = descriptor + 1


def poll_readable(descriptor: int, *, wait: bool) -> Syscall:
    """Return 1 if there is something to read or the other end is closed, else 0, or wait until it is 1."""
    return syscall("ppoll", struct.pack("ihh", descriptor, select.POLLIN, 0), 1, None if wait else bytes(16), None)


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> Syscall:
    return syscall("mount", source, target, kind, flags, options)


def move_mount(mount: int, target: str) -> Syscall:
    """Attach a mount that is in no file tree yet, given as a descriptor, at `target`."""
    return syscall("move_mount", mount, "", _HERE, target, _EMPTY_SOURCE)


def set_mount(target: str, attributes: int) -> Syscall:
    """Add attributes to a mount and everything mounted below it."""
    attributes_struct = struct.pack("QQQQ", attributes, 0, 0, 0)
    return syscall("mount_setattr", _HERE, target, _RECURSIVE, attributes_struct, len(attributes_struct))


def make_folder(path: str, mode: int, *, may_exist: bool = False) -> list[Syscall]:
    """Make a folder with exactly this mode."""
    return [
        syscall("mkdirat", _HERE, path, 0o777, ignored_errno=errno.EEXIST if may_exist else 0),
        syscall("fchmodat", _HERE, path, mode),
    ]


def become_user(user: int) -> list[Syscall]:
    """Switch to the one user id that is mapped. An unprivileged user namespace cannot drop groups."""
    ids = (user, user, user)
    return [
        syscall("setgroups", 0, None, ignored_errno=errno.EPERM),
        syscall("setresgid", *ids),
        syscall("setresuid", *ids),
    ]


def set_rlimit(kind: int, most: int) -> Syscall:
    """Set a resource limit, soft and hard."""
    return syscall("prlimit64", 0, kind, struct.pack("QQ", most, most), None)


def raise_loopback() -> list[Syscall]:
    inet, datagrams, set_flags, up_and_running = 2, 2, 0x8914, 0x41
    return [
        syscall("socket", inet, datagrams | os.O_CLOEXEC, 0),
        syscall("ioctl", PREVIOUS_RESULT, set_flags, struct.pack("16sh14x", b"lo", up_and_running)),
    ]


def die_with_parent() -> Syscall:
    """Have the kernel kill this process when its parent ends. Repeat it after every change of user, which resets it."""
    return syscall("prctl", kernel.PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def drop_privileges(filter_program: int, keep: Sequence[int] = (), inherit: Sequence[int] = ()) -> list[Syscall]:
    """Give up privileges for good: all capabilities but those in `keep`, setuid programs, the filter's denied calls.

    Args:
        filter_program: address of the seccomp filter, from `kernel.filter_at`.
        inherit: those capabilities of `keep` that programs started by user 0 have too.
    """
    capability_mask = sum(1 << capability for capability in keep)
    header, sets = struct.pack("II", 0x20080522, 0), struct.pack("IIIIII", capability_mask, capability_mask, 0, 0, 0, 0)
    return [
        syscall(
            "prctl", kernel.PR_CAP_AMBIENT, kernel.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0, ignored_errno=errno.EINVAL
        ),  # gVisor
        *(
            syscall("prctl", kernel.PR_CAPBSET_DROP, number, 0, 0, 0)
            for number in range(kernel.capabilities())
            if number not in inherit
        ),
        syscall("capset", header, sets),
        syscall("prctl", kernel.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
        syscall("seccomp", 1, 0, filter_program),
        syscall("prctl", kernel.PR_SET_DUMPABLE, 0, 0, 0, 0),
    ]
