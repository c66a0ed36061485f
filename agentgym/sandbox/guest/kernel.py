"""The Linux calls that Python does not offer, through ctypes. Every failure is an OSError that names the call.

Hand-written, because the guest may use only the standard library of any Python from 3.9 on.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
from functools import cache
from typing import Any

from . import architecture
from .architecture import CALLS
from .openat_beneath import open_beneath_stepwise

CLONE_PARENT = 0x00008000
CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH = 2

MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV = 1, 2, 4
_MOUNT_ATTR_IDMAP, _OPEN_TREE_CLONE = 0x00100000, 1
_AT_FDCWD, _AT_RECURSIVE, _AT_EMPTY_PATH = -100, 0x8000, 0x1000

RESOLVE_NO_XDEV, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS = 0x01, 0x02, 0x04
RESOLVE_BENEATH, RESOLVE_IN_ROOT = 0x08, 0x10

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, _PR_CAPBSET_READ, PR_CAPBSET_DROP = 1, 4, 23, 24
_PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47
_PR_CAP_AMBIENT_RAISE, PR_CAP_AMBIENT_CLEAR_ALL = 2, 4
_LAST_CAPABILITY = 63
_CAPABILITY_HEADER = struct.pack("II", 0x20080522, 0)  # version 3 of the interface, for this process
_CHILD_ENDED = int(signal.SIGCHLD)

_RACES = 64  # maximum calls of openat2 while the kernel answers EAGAIN

_libc = ctypes.CDLL(None, use_errno=True)
_libc_with_gil = ctypes.PyDLL(None, use_errno=True)  # the same library, called without releasing the GIL
_libc.syscall.restype = _libc_with_gil.syscall.restype = ctypes.c_long
# looked up once here, not again in every fork
_before_fork, _after_fork_in_parent = ctypes.pythonapi.PyOS_BeforeFork, ctypes.pythonapi.PyOS_AfterFork_Parent
_after_fork_in_child = ctypes.pythonapi.PyOS_AfterFork_Child
_clone: Any = _libc_with_gil.syscall
_process_control: Any = getattr(_libc_with_gil, "prctl", None)  # None where this is not Linux
_NOTHING = (None, None, None, None)


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


# index in /proc/PID/stat, counted from the state, of the address of the command line; its end is the next field
_FIRST_ARGUMENT = 45
# filters must stay alive as long as the process
_kept_filters: list[tuple[ctypes.Array[ctypes.c_char], _FilterProgram]] = []


def unsupported() -> str | None:
    """Return why this machine cannot hold sandboxes at all; None if it can."""
    system = os.uname()
    if reason := architecture.unsupported():
        return reason
    release = tuple(int(part) for part in system.release.split("-")[0].split(".")[:2])
    if release < (5, 14):
        return f"the kernel is {system.release}; 5.14 or newer is needed (process limits per user namespace)"
    if not shows_own_processes():
        return "/proc is not that of this pid namespace; mount it anew (unshare --mount-proc)"
    return None


def shows_own_processes() -> bool:
    """Return whether /proc counts processes as this process's pid namespace does."""
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def mount(source: str | None, target: str, kind: str | None, flags: int = 0, options: str | None = None) -> None:
    result = _libc.mount(_text(source), _text(target), _text(kind), ctypes.c_ulong(flags), _text(options))
    _check(result, f"mount {kind or 'bind'} on {target}")


def bind(source: str, target: str, *, read_only: bool = True) -> None:
    """Bind mount a file or tree, without setuid and, for a tree, without devices."""
    mount(source, target, None, MS_BIND | MS_REC)
    if read_only:
        set_mount(target, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)


def set_mount(target: str, attributes: int) -> None:
    """Add attributes to a mount and everything mounted below it."""
    attr = _MountAttr(attr_set=attributes)
    _check(
        _libc.syscall(
            CALLS["mount_setattr"], _AT_FDCWD, _text(target), _AT_RECURSIVE, ctypes.byref(attr), ctypes.c_size_t(32)
        ),
        f"mount_setattr {target}",
    )


def copy_mount(path: str) -> int:
    """Return a descriptor of a new mount of a folder, which lies in no file tree until it is moved there."""
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC
    descriptor = int(_libc.syscall(CALLS["open_tree"], _AT_FDCWD, _text(path), ctypes.c_uint(flags)))
    _check(descriptor, f"open_tree {path}")
    return descriptor


def map_ids(mount: int, user_namespace: int) -> None:
    """In a new mount, show the files of each user N as files of the user to which a user namespace maps N.

    Args:
        mount: a descriptor from `copy_mount`. user_namespace: a descriptor.
    """
    attr = _MountAttr(attr_set=_MOUNT_ATTR_IDMAP, userns_fd=user_namespace)
    flags, size = ctypes.c_uint(_AT_EMPTY_PATH), ctypes.c_size_t(ctypes.sizeof(attr))
    _check(_libc.syscall(CALLS["mount_setattr"], mount, b"", flags, ctypes.byref(attr), size), "mount_setattr idmap")


def detach(target: str) -> None:
    _check(_libc.umount2(_text(target), MNT_DETACH), f"umount {target}")


def pivot_root(new: str, old: str) -> None:
    _check(_libc.syscall(CALLS["pivot_root"], _text(new), _text(old)), f"pivot_root {new}")


def fork_into(namespaces: int) -> int:
    """Fork like os.fork, with the child in new namespaces; in a new pid namespace it is process 1. Use a single thread.

    libc's work around its own fork is left out: it handles locks between threads, and caches the thread id, which it
    uses only as the owner of locks. A later fork by libc caches the right id.
    """
    _before_fork()
    pid: int = _clone(CALLS["clone"], namespaces | _CHILD_ENDED, *_NOTHING)
    if pid == 0:
        _after_fork_in_child()
        return 0
    _after_fork_in_parent()
    if pid < 0:
        _check(pid, "clone")
    return pid


def unshare(flags: int) -> None:
    _check(_libc.unshare(flags), f"unshare {flags:#x}")


def open_beneath(
    directory: int, path: str | bytes, flags: int, mode: int = 0, *, resolve: int = RESOLVE_BENEATH
) -> int:
    """Open, by openat2, a path that must not leave `directory`, whatever links it contains. Returns: a descriptor.

    The kernel gives up if anything on the machine is mounted or renamed while it resolves a `..`; the call is repeated.
    """
    how = _OpenHow(flags | os.O_CLOEXEC, mode, resolve | RESOLVE_NO_MAGICLINKS)
    for _ in range(_RACES):
        descriptor = _libc.syscall(
            CALLS["openat2"], directory, os.fsencode(path), ctypes.byref(how), ctypes.c_size_t(24)
        )
        if descriptor >= 0 or ctypes.get_errno() != errno.EAGAIN:
            break
    if descriptor < 0 and ctypes.get_errno() == errno.ENOSYS:
        return open_beneath_stepwise(
            directory, os.fsdecode(path), flags, mode, same_device=bool(resolve & RESOLVE_NO_XDEV)
        )
    _check(descriptor, os.fsdecode(path))
    return int(descriptor)


def change_directory(path: str) -> None:
    """Change the working directory, but not through a /proc link to a process's open files. Raises: OSError."""
    how = _OpenHow(os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, 0, RESOLVE_NO_MAGICLINKS)
    descriptor = _libc.syscall(CALLS["openat2"], _AT_FDCWD, os.fsencode(path), ctypes.byref(how), ctypes.c_size_t(24))
    # gVisor does not have this call, but there the guest holds no directory open
    if descriptor < 0 and ctypes.get_errno() == errno.ENOSYS:
        os.chdir(path)
        return
    _check(descriptor, path)
    try:
        os.fchdir(descriptor)
    finally:
        os.close(descriptor)


def write_to(path: str, text: str) -> None:
    """Write to a file of /proc in one call: the kernel would take two calls for two values."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def read_from(path: str) -> bytes:
    """Return the first 8 KiB of a file of /proc. Opening it in text mode would cost the guest 0.6 MB of memory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, 8192)
    finally:
        os.close(descriptor)


def close_from(lowest: int) -> None:
    """Close every descriptor from `lowest` on."""
    _check(_libc.syscall(CALLS["close_range"], ctypes.c_uint(lowest), ctypes.c_uint(0x7FFFFFFF), 0), "close_range")


def drop_from_bounding_set(capability: int) -> None:
    """Make no program that this process executes ever get a capability."""
    _prctl(PR_CAPBSET_DROP, capability)


def forbid_new_privileges() -> None:
    """Make set-user-id programs start without the rights of their owner, from now on."""
    _prctl(PR_SET_NO_NEW_PRIVS, 1)


def install_filter(program: bytes) -> None:
    """Have the kernel check every system call of this process, and of what it starts, by a classic BPF program."""
    _check(_libc.syscall(CALLS["seccomp"], 1, 0, ctypes.c_void_p(filter_at(program))), "seccomp")


def die_with_parent() -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def set_dumpable(value: bool) -> None:
    """If False, no process of the same user can trace this one or open its /proc files."""
    _prctl(PR_SET_DUMPABLE, int(value))


def show_command_line(text: bytes) -> None:
    """Make /proc show another command line for this process and its forks, cut to the length of the current one."""
    fields = read_from("/proc/self/stat").rpartition(b")")[2].split()
    start, end = (int(field) for field in fields[_FIRST_ARGUMENT : _FIRST_ARGUMENT + 2])
    if 0 < start < end:  # 0: not known here
        ctypes.memmove(start, text[: end - start - 1].ljust(end - start, b"\0"), end - start)


def adopt_orphans() -> None:
    """Become a subreaper: orphaned descendants become children of this process. No effect on gVisor."""
    _prctl_if_known(_PR_SET_CHILD_SUBREAPER, 1)


def capabilities() -> int:
    """Return the number of capabilities that this kernel has."""
    return next(n for n in range(_LAST_CAPABILITY + 2) if _libc.prctl(_PR_CAPBSET_READ, n, 0, 0, 0) < 0)


def held_capabilities() -> int:
    """Return the permitted capabilities of this process, a bit each."""
    _, permitted, _, _, permitted_high, _ = _capability_sets()
    return int(permitted | permitted_high << 32)


def _capability_sets() -> tuple[int, ...]:
    sets = ctypes.create_string_buffer(24)
    _check(_libc.syscall(CALLS["capget"], _CAPABILITY_HEADER, sets), "capget")
    return struct.unpack("6I", sets.raw)


def keep_capabilities() -> None:
    """Make the current capabilities ambient: a program that this process executes keeps them, whatever its user id."""
    effective, permitted, _, effective_high, permitted_high, _ = _capability_sets()
    capability_words = struct.pack(
        "6I", effective, permitted, permitted, effective_high, permitted_high, permitted_high
    )
    _check(_libc.syscall(CALLS["capset"], _CAPABILITY_HEADER, capability_words), "capset")
    for capability in range(_LAST_CAPABILITY + 1):
        if (permitted | permitted_high << 32) >> capability & 1:
            _check(
                _libc.prctl(PR_CAP_AMBIENT, ctypes.c_ulong(_PR_CAP_AMBIENT_RAISE), ctypes.c_ulong(capability), 0, 0),
                "prctl ambient",
            )


@cache
def filter_at(program: bytes) -> int:
    """Return the address of a classic BPF program in the form that seccomp takes, valid in this process and
    its forks.
    """
    buffer = ctypes.create_string_buffer(program, len(program))
    filter_program = _FilterProgram(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p).value)
    _kept_filters.append((buffer, filter_program))
    return ctypes.addressof(filter_program)


def _prctl(option: int, value: int) -> None:
    if _process_control(option, value, 0, 0, 0) < 0:
        _check(-1, f"prctl {option}")


def _prctl_if_known(option: int, value: int) -> None:
    try:
        _prctl(option, value)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


def _text(value: str | None) -> bytes | None:
    return None if value is None else os.fsencode(value)


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
