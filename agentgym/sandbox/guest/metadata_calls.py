"""Changes modes and times of files for agent code that shares its user with the machine's other processes.

Landlock does not check these calls: such code could change the user's own files by them. So the tracer makes each
change itself, on a descriptor that it has checked, and the call of the program is skipped.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable, Sequence

from . import surroundings
from .architecture import CALLS

_MODES = ("chmod", "fchmod", "fchmodat", "fchmodat2")
_TIMES = ("utime", "utimes", "futimesat", "utimensat")
_OWNERS = ("chown", "fchown", "lchown", "fchownat")  # files keep their owner
_NAMES = {CALLS[name]: name for name in (*_MODES, *_TIMES, *_OWNERS) if name in CALLS}
NUMBERS = tuple(_NAMES)
_HERE, _NO_FOLLOW, _EMPTY_PATH = -100, 0x100, 0x1000
_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long

ReadBytes = Callable[[int, int], "bytes | None"]  # address, length
ReadText = Callable[[int], "bytes | None"]


def perform(number: int, arguments: Sequence[int], thread: int, text_at: ReadText, bytes_at: ReadBytes) -> int:
    """Do what a call asks for, if it is about a file of the sandbox. Returns: the call's result, -errno if it failed.

    Args:
        arguments: the arguments of the call. thread: the thread that makes it.
        text_at, bytes_at: functions that read the thread's memory.
    """
    name = _NAMES[number]
    try:
        if name in _OWNERS:
            return _give_to_itself(*_owner(name, arguments))
        if name in _MODES:
            location, mode, flags = _mode_call(name, arguments)
            with _File(thread, *location, flags, text_at) as path:
                os.chmod(path, mode & 0o7777)
            return 0
        location, times, flags = _time_call(name, arguments, bytes_at)
        with _File(thread, *location, flags, text_at) as path:
            _set_times(path, times)
        return 0
    except OSError as error:
        return -(error.errno or errno.EIO)


class _File:
    """A file that a program named, opened without any right but to be named. The block gets a path that stays it."""

    def __init__(self, thread: int, folder: int, address: int, flags: int, text_at: ReadText) -> None:
        """Open it. `address`: of its path; 0 if the descriptor `folder` is the file itself."""
        path = text_at(address) if address else b""
        if path is None:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        if not path and address and not flags & _EMPTY_PATH:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        base = f"/proc/{thread}/cwd" if folder == _HERE else f"/proc/{thread}/fd/{folder}"
        how = os.O_PATH | os.O_CLOEXEC
        if path.startswith(b"/"):
            self._descriptor = os.open(surroundings.real(os.fsdecode(path)), how | _nofollow(flags))
        elif not path:
            self._descriptor = os.open(base, how)
        else:
            start = os.open(base, how | os.O_DIRECTORY)
            try:
                self._descriptor = os.open(path, how | _nofollow(flags), dir_fd=start)
            finally:
                os.close(start)

    def __enter__(self) -> str:
        path = f"/proc/self/fd/{self._descriptor}"
        if not surroundings.is_writable(os.readlink(path)):
            os.close(self._descriptor)
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        return path

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def _nofollow(flags: int) -> int:
    return os.O_NOFOLLOW if flags & _NO_FOLLOW else 0


def _signed(number: int) -> int:
    return ctypes.c_int(number & 0xFFFFFFFF).value


def _owner(name: str, arguments: Sequence[int]) -> tuple[int, int]:
    first = 2 if name == "fchownat" else 1
    return _signed(arguments[first]), _signed(arguments[first + 1])


def _give_to_itself(user: int, group: int) -> int:
    mine = user in (-1, os.getuid()) and group in (-1, os.getgid())
    return 0 if mine else -errno.EPERM


def _mode_call(name: str, arguments: Sequence[int]) -> tuple[tuple[int, int], int, int]:
    """Return the folder and the path's address, the mode, and the flags."""
    if name == "chmod":
        return (_HERE, arguments[0]), arguments[1], 0
    if name == "fchmod":
        return (_signed(arguments[0]), 0), arguments[1], 0
    flags = arguments[3] if name == "fchmodat2" else 0
    return (_signed(arguments[0]), arguments[1]), arguments[2], flags


def _time_call(name: str, arguments: Sequence[int], bytes_at: ReadBytes) -> tuple[tuple[int, int], bytes | None, int]:
    """Return the folder and the path's address, two times as utimensat takes them (None: now), and the flags."""
    if name == "utimensat":
        times = _times_at(arguments[2], 32, bytes_at) if arguments[2] else None
        return (_signed(arguments[0]), arguments[1]), times, arguments[3]
    if name == "futimesat":
        location, address = (_signed(arguments[0]), arguments[1]), arguments[2]
    else:
        location, address = (_HERE, arguments[0]), arguments[1]
    if not address:
        return location, None, 0
    if name == "utime":
        first, last = struct.unpack("qq", _times_at(address, 16, bytes_at))
        return location, struct.pack("qqqq", first, 0, last, 0), 0
    first, micro, last, other = struct.unpack("qqqq", _times_at(address, 32, bytes_at))
    return location, struct.pack("qqqq", first, micro * 1000 % 2**63, last, other * 1000 % 2**63), 0


def _times_at(address: int, length: int, bytes_at: ReadBytes) -> bytes:
    """Return the bytes of times. Raises: OSError if the program named memory that it does not have."""
    content = bytes_at(address, length)
    if content is None or len(content) < length:
        raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
    return content


def _set_times(path: str, times: bytes | None) -> None:
    result = _syscall(
        ctypes.c_long(CALLS["utimensat"]), ctypes.c_long(_HERE), os.fsencode(path), times, ctypes.c_long(0)
    )
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
