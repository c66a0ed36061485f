"""The system calls a sandbox may not make, as a classic BPF program for x86-64.

Everything is allowed but: what changes the machine or its namespaces, what reads other processes, kernel
interfaces with a record of holes (io_uring, bpf, userfaultfd, keyrings), foreign architectures, and
numbers newer than this list. Most refusals read EPERM; unknown calls read ENOSYS, so that libraries fall back.
"""

from __future__ import annotations

import errno
import struct
from functools import cache

DENIED = {
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308,
    "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "move_mount": 429, "open_tree": 428,
    "mount_setattr": 442, "open_tree_attr": 467,
    "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "pidfd_getfd": 438,
    "process_madvise": 440,
    "bpf": 321, "perf_event_open": 298, "userfaultfd": 323,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "keyctl": 250, "add_key": 248, "request_key": 249,
    "kexec_load": 246, "kexec_file_load": 320, "init_module": 175, "finit_module": 313, "delete_module": 176,
    "reboot": 169, "swapon": 167, "swapoff": 168, "acct": 163, "syslog": 103, "quotactl": 179, "quotactl_fd": 443,
    "settimeofday": 164, "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305,
    "open_by_handle_at": 304, "name_to_handle_at": 303, "fanotify_init": 300,
    "iopl": 172, "ioperm": 173, "modify_ldt": 154, "personality": 135, "vhangup": 153,
    "mbind": 237, "set_mempolicy": 238, "set_mempolicy_home_node": 450, "move_pages": 279, "migrate_pages": 256,
    "lookup_dcookie": 212, "nfsservctl": 180, "uselib": 134, "_sysctl": 156,
    "mknod": 133, "mknodat": 259, "sethostname": 170, "setdomainname": 171,
}  # fmt: skip
_NEWEST = 469  # file_setattr, Linux 6.17

SOCKET_FAMILIES = (1, 2, 10, 16)  # unix, inet, inet6, netlink: inside an empty network namespace
_CLONE_NEW_ANYTHING = 0x7E020000
_TERMINAL_INJECTION = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX

_X86_64 = 0xC000003E
_SOCKET, _CLONE, _CLONE3, _IOCTL = 41, 56, 435, 16
_LOAD, _EQUAL, _GREATER_EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT = 0, 4, 16, 24  # offsets in struct seccomp_data


@cache
def program() -> bytes:
    """The filter, ready for the kernel: 8 bytes an instruction."""
    lines: list[tuple[int, int, int, int]] = []

    def add(code: int, value: int, if_true: int = 0, if_false: int = 0) -> None:
        lines.append((code, if_true, if_false, value))

    def refuse_if(number: int, reason: int = errno.EPERM) -> None:
        add(_EQUAL, number, 0, 1)
        add(_RETURN, _REFUSE | reason)

    add(_LOAD, _ARCHITECTURE)
    add(_EQUAL, _X86_64, 1, 0)
    add(_RETURN, _KILL)
    add(_LOAD, _NUMBER)
    add(_GREATER_EQUAL, _NEWEST + 1, 0, 1)  # also every x32 call
    add(_RETURN, _REFUSE | errno.ENOSYS)
    for number in DENIED.values():
        refuse_if(number)
    refuse_if(_CLONE3, errno.ENOSYS)  # its flags lie in memory, out of a filter's sight; libc falls back to clone

    add(_EQUAL, _CLONE, 0, 4)
    add(_LOAD, _FIRST_ARGUMENT)
    add(_ANY_BIT, _CLONE_NEW_ANYTHING, 0, 1)
    add(_RETURN, _REFUSE | errno.EPERM)
    add(_RETURN, _ALLOW)

    add(_EQUAL, _IOCTL, 0, 2 + 2 * len(_TERMINAL_INJECTION))
    add(_LOAD, _SECOND_ARGUMENT)
    for request in _TERMINAL_INJECTION:
        refuse_if(request)
    add(_RETURN, _ALLOW)

    add(_EQUAL, _SOCKET, 0, 2 + len(SOCKET_FAMILIES))
    add(_LOAD, _FIRST_ARGUMENT)
    for position, family in enumerate(SOCKET_FAMILIES):
        add(_EQUAL, family, len(SOCKET_FAMILIES) - position, 0)
    add(_RETURN, _REFUSE | errno.EAFNOSUPPORT)
    add(_RETURN, _ALLOW)
    return b"".join(struct.pack("HBBI", code, yes, no, value) for code, yes, no, value in lines)
