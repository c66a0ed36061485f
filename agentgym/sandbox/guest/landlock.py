"""Landlock: a process gives up, for itself and all that it starts, the files that it does not need."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable

from . import kernel
from .architecture import CALLS

_CREATE, _ADD, _RESTRICT = (CALLS[f"landlock_{name}"] for name in ("create_ruleset", "add_rule", "restrict_self"))
_VERSION, _BELOW = 1, 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER, _TRUNCATE, _IOCTL = 1, 2, 4, 8, 1 << 14, 1 << 15
_READ = _EXECUTE | _READ_FILE | _READ_FOLDER
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
_DEVICES = 1 << 6 | 1 << 11  # make character and block devices: never allowed
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}  # files, by version
_TCP = 0b11  # bind, connect
_SCOPE = 0b11  # abstract sockets, signals
SCOPED = 6  # the version from which on signals stay inside

_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long


def version() -> int:
    """Return the version of Landlock's interface; 0 if the kernel does not have it, or has it switched off."""
    return max(int(_syscall(ctypes.c_long(_CREATE), None, ctypes.c_ulong(0), ctypes.c_uint(_VERSION))), 0)


def rules(listable: Iterable[str], readable: Iterable[str], writable: Iterable[str], *, scoped: bool) -> int:
    """Return a descriptor of rules, for `enter`.

    Args:
        listable, readable, writable: paths. Of what is below them the names may be read, or it may be read and
            executed, or everything may be done with it. Paths that do not exist, or that this process cannot reach, are
            left out.
        scoped: signals, and abstract sockets, stay among the processes that enter together and what they
            start, where the kernel has that.
    Raises: OSError.
    """
    has = version()
    rights = next((rights for least, rights in sorted(_RIGHTS.items(), reverse=True) if least <= has), 0)
    attributes = struct.pack("QQQ", rights, _TCP if has >= 4 else 0, _SCOPE if has >= SCOPED and scoped else 0)
    size = 24 if has >= SCOPED else 16 if has >= 4 else 8
    created = _checked(_syscall(ctypes.c_long(_CREATE), attributes, ctypes.c_ulong(size), ctypes.c_uint(0)), "create")
    for paths, granted in ((listable, _READ_FOLDER), (readable, _READ), (writable, rights & ~_DEVICES)):
        for path in paths:
            _allow(created, path, granted & rights)
    return created


def enter(rules: int) -> None:
    """Let this process, and what it starts from now on, do only what the rules allow. Raises: OSError."""
    kernel.forbid_new_privileges()
    _checked(_syscall(ctypes.c_long(_RESTRICT), ctypes.c_int(rules), ctypes.c_uint(0)), "restrict_self")


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return
    try:
        if not os.path.isdir(path):
            rights &= _OF_FILES
        rule = struct.pack("=Qi", rights, descriptor)
        _checked(_syscall(ctypes.c_long(_ADD), ctypes.c_int(rules), ctypes.c_int(_BELOW), rule, ctypes.c_uint(0)), path)
    finally:
        os.close(descriptor)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), f"landlock {what}")
    return int(result)
