"""The system calls that a sandbox may not make, as a classic BPF program.

Everything is allowed except: what changes the machine or its namespaces, what reads other processes, kernel interfaces
with a record of vulnerabilities (io_uring, bpf, userfaultfd, keyrings), what uses up or shows something of the whole
machine (inotify, asynchronous I/O, huge pages), foreign architectures, and numbers newer than this list. Most refusals
return EPERM; unknown calls and those in ABSENT return ENOSYS, so that libraries fall back. Calls that flush a disk do
nothing and report success: all files that a sandbox can write to are in memory. So do those that drop files from
the machine's cache, which all sandboxes share. In a sandbox whose agent is root by name, so do those that change the
owner of a file or the user of a process. They succeed for root of a container too; a sandbox has one user only.

Hand-written, because libseccomp is a shared library that no machine is sure to have.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable
from functools import cache

from .architecture import CALLS, numbers
from .bpf import (
    ALLOW,
    AND,
    ANY_BIT,
    EQUAL,
    FIRST_ARGUMENT,
    FOURTH_ARGUMENT,
    GREATER_EQUAL,
    LOAD,
    PRETEND,
    REFUSE,
    RETURN,
    SECOND_ARGUMENT,
    THIRD_ARGUMENT,
    Line,
    assembled,
    only,
    tree,
)

_IP, _SOCKET, _TCP, _UDP, _IPV6, _UDPLITE, _TLS = 0, 1, 6, 17, 41, 136, 282


def _numbers(*parts: int | tuple[int, int]) -> frozenset[int]:
    """Return a set of numbers; a pair means the range from its first number to its last."""
    ranges: Iterable[Iterable[int]] = (
        (part,) if isinstance(part, int) else range(part[0], part[1] + 1) for part in parts
    )
    return frozenset(number for numbers in ranges for number in numbers)


SOCKET_OPTIONS: dict[int, frozenset[int]] = {
    # not 35-48 memberships and source filters; 64 and more: tables and routing
    _IP: _numbers((0, 34), (49, 52)),
    # not 26, 27, 44, 50-52, 68 filters; 29, 35, 37, 61, 63-65 timestamps; 46, 69, 70 busy polling; 60 pinned pages
    _SOCKET: _numbers((0, 25), 28, (30, 34), 36, (38, 43), 45, (47, 49), (53, 59), 62, 66, 67, (71, 77), 83),
    # not 14, 32, 38-43 keys; 19-22, 29 repair; 31 TCP_ULP; 37 TCP_TX_DELAY
    _TCP: _numbers((0, 13), (15, 18), (23, 28), 30, (33, 36), (44, 47)),
    # not 100 UDP_ENCAP; 104 UDP_GRO
    _UDP: _numbers(0, 1, (101, 103)),
    # not 3-6, 54, 55, 57, 59 headers; 20, 21, 27, 28, 42-48 memberships; 32 flow labels; 34, 35 IPsec; 64, 65 tables
    _IPV6: _numbers((0, 2), (7, 19), (22, 26), (29, 31), 33, (36, 41), (49, 53), 56, 58, (60, 63), (66, 72), (74, 78)),
    _UDPLITE: frozenset(),  # the same options as UDP's, of a UDP socket
    _TLS: frozenset(),
}
"""The socket options that a sandbox may set, by level, as the kernel numbers them on x86-64 and arm64.

Options that are not listed are refused at these levels: memberships and keys, whose removal holds a lock of the whole
machine for minutes if there are many (multicast, anycast, TCP-MD5, TCP-AO); code that the kernel runs for each packet
(filters, BPF, ULP, UDP encapsulation); switches that change how every packet of the machine is handled (timestamps,
GRO, transmit delay, exclusive flow labels); extension headers of IPv6. Options that need a privilege are
the kernel's to refuse. Levels that are not listed belong to sockets that a sandbox cannot make.
"""


DENIED = (
    "mount", "umount2", "pivot_root", "chroot", "unshare", "setns",
    "fsopen", "fsconfig", "fsmount", "fspick", "move_mount", "open_tree",
    "mount_setattr", "open_tree_attr",
    "ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd",
    "process_madvise",
    "bpf", "perf_event_open", "userfaultfd",
    "io_uring_setup", "io_uring_enter", "io_uring_register",
    "keyctl", "add_key", "request_key",
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module",
    "reboot", "swapon", "swapoff", "acct", "syslog", "quotactl", "quotactl_fd",
    "settimeofday", "clock_settime", "adjtimex", "clock_adjtime",
    "open_by_handle_at", "name_to_handle_at", "fanotify_init",
    "iopl", "ioperm", "modify_ldt", "personality", "vhangup",
    "mbind", "set_mempolicy", "set_mempolicy_home_node", "move_pages", "migrate_pages",
    "lookup_dcookie", "nfsservctl", "uselib", "_sysctl",
    "sethostname", "setdomainname",
    # System V objects and POSIX queues outlive their processes, so their memory is never freed
    "shmget", "semget", "msgget", "mq_open",
)  # fmt: skip
# inotify shows what neighbours and the host do with the files of /usr, which all share. Its instances, and the
# contexts of asynchronous I/O, are counted for the user who made the namespace, so for all sandboxes together.
# a filter cannot read clone3's flags, which are in memory: libc then falls back to clone
ABSENT = ("inotify_init", "inotify_init1", "io_setup", "memfd_secret", "clone3")
_NEWEST = CALLS["file_setattr"]  # the last call in this list, new in Linux 6.17

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16  # socket families, inside an empty network namespace
_STREAM, _DATAGRAM, _PACKETS, _KIND_OF_SOCKET = 1, 2, 5, 0xF  # the mask selects the kind without its flags
_INET_PROTOCOLS = (0, 6, 17)  # each kind's usual protocol, TCP and UDP, but not MPTCP, UDP-Lite, SCTP and the like
_ROUTES = 0  # the netlink protocol by which programs learn their own addresses
_MAP_HUGETLB, _MFD_HUGETLB = 0x40000, 4  # reserved huge pages count against no limit
_CLONE_NEW_ANYTHING = 0x7E020000
_DEVICE = 0o020000  # in a file's mode: both kinds of device have this bit, and nothing else that mknod makes has
# TIOCSTI and TIOCLINUX type into a terminal; TIOCSETD loads a line discipline into the kernel
_TERMINAL_REQUESTS = (0x5412, 0x541C, 0x5423)
# Missing on purpose: F_SETLEASE (1024), because others that open the file, such as the guest, must wait for its holder;
# F_NOTIFY (1026), which shows the same as inotify; and all commands newer than this list.
_FILE_COMMANDS = (*range(17), *range(36, 39), 1025, 1027, 1028, *range(1029, 1041))
_CORE_SCHEDULING = 62  # an option of prctl that changes the scheduler of the whole machine
_DROP_CACHE = 4  # POSIX_FADV_DONTNEED
_WAIT_FOR_DISK = 4  # MS_SYNC

_SCHEDULING = ("sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr")
_FLUSHES = ("fsync", "fdatasync", "syncfs")  # they work even on a file that is open only for reading
_IDENTITY = (
    "chown", "fchown", "lchown", "fchownat", "setuid", "setgid", "setreuid", "setregid", "setgroups", "setresuid",
    "setresgid", "setfsuid", "setfsgid",
)  # fmt: skip
_GUEST = 1  # the guest's pid: agent code may do these things to other processes of its user, but not to the guest
_EVERY_PROCESS_OF_THE_USER = {"setpriority": 2, "ioprio_set": 3}
_CORE_LIMIT = 4
_NEGATIVE = 1 << 31  # numbers from this one on are negative, read as unsigned


@cache
def program(*, as_root: bool = False, sockets: bool = True) -> bytes:
    """Return the filter in the kernel's form: 8 bytes an instruction.

    Args:
        as_root: changes of owner and user are pretended.
        sockets: whether a program may connect sockets. False where they would reach the machine's own.

    A binary tree, not a list of comparisons: seven steps decide about any call. The kernel also checks it faster when
    it is installed; a list of this length takes 0.4 ms.
    """
    parts = _argument_checks()
    if not sockets:
        parts["socket"] = _socket_that_cannot_connect()
    verdicts: dict[int, int | str] = {number: name for name in parts for number in numbers(name)}
    for names, verdict in (
        (DENIED, REFUSE | errno.EPERM),
        (ABSENT, REFUSE | errno.ENOSYS),
        (("sync", *(_IDENTITY if as_root else ())), PRETEND),
        (() if sockets else ("connect",), REFUSE | errno.EACCES),
    ):
        verdicts |= dict.fromkeys(numbers(*names), verdict)
    return assembled(verdicts, parts, newest=_NEWEST)


def _argument_checks() -> dict[str, list[Line]]:
    """Return the checks of calls that are allowed only with some arguments. None of these arguments is a pointer."""

    def no_device(mode: int, number: int) -> list[Line]:
        """Allow only device number 0, which opens nothing: overlays mark removed names with it."""
        return [
            (LOAD, 0, 0, mode),
            (ANY_BIT, 0, 3, _DEVICE),
            (LOAD, 0, 0, number),
            (EQUAL, 1, 0, 0),
            (RETURN, 0, 0, REFUSE | errno.EPERM),
            (RETURN, 0, 0, ALLOW),
        ]

    def no_bit(argument: int, bit: int, error: int) -> list[Line]:
        return [
            (LOAD, 0, 0, argument),
            (ANY_BIT, 0, 1, bit),
            (RETURN, 0, 0, REFUSE | error),
            (RETURN, 0, 0, ALLOW),
        ]

    return {
        "mmap": no_bit(FOURTH_ARGUMENT, _MAP_HUGETLB, errno.ENOMEM),
        "memfd_create": no_bit(SECOND_ARGUMENT, _MFD_HUGETLB, errno.EINVAL),  # Chromium tries all flags
        "fcntl": [(LOAD, 0, 0, SECOND_ARGUMENT), *_members(_FILE_COMMANDS, errno.EPERM)],
        "prctl": [
            (LOAD, 0, 0, FIRST_ARGUMENT),
            (EQUAL, 0, 1, _CORE_SCHEDULING),
            (RETURN, 0, 0, REFUSE | errno.EINVAL),
            (RETURN, 0, 0, ALLOW),
        ],
        "setsockopt": _socket_options(),
        "fadvise64": [
            (LOAD, 0, 0, FOURTH_ARGUMENT),
            (EQUAL, 0, 1, _DROP_CACHE),
            (RETURN, 0, 0, PRETEND),
            (RETURN, 0, 0, ALLOW),
        ],
        "msync": [
            (LOAD, 0, 0, THIRD_ARGUMENT),
            (ANY_BIT, 0, 1, _WAIT_FOR_DISK),
            (RETURN, 0, 0, PRETEND),
            (RETURN, 0, 0, ALLOW),
        ],
        "sync_file_range": [  # without flags the call does nothing
            (LOAD, 0, 0, FOURTH_ARGUMENT),
            (EQUAL, 1, 0, 0),
            (RETURN, 0, 0, PRETEND),
            (RETURN, 0, 0, ALLOW),
        ],
        # the limit on core files stays at 1 byte, the one value that keeps the host's crash handler from running
        "setrlimit": [
            (LOAD, 0, 0, FIRST_ARGUMENT),
            (EQUAL, 0, 1, _CORE_LIMIT),
            (RETURN, 0, 0, PRETEND),
            (RETURN, 0, 0, ALLOW),
        ],
        "prlimit64": [
            *_unless_guest(FIRST_ARGUMENT),
            (LOAD, 0, 0, SECOND_ARGUMENT),
            (EQUAL, 0, 5, _CORE_LIMIT),
            # the pointer to a new limit, in two halves; null means that the call only reads
            (LOAD, 0, 0, THIRD_ARGUMENT),
            (EQUAL, 0, 2, 0),
            (LOAD, 0, 0, THIRD_ARGUMENT + 4),
            (EQUAL, 1, 0, 0),
            (RETURN, 0, 0, PRETEND),
            (RETURN, 0, 0, ALLOW),
        ],
        **{name: [*_unless_guest(FIRST_ARGUMENT), (RETURN, 0, 0, ALLOW)] for name in _SCHEDULING},
        **{
            name: [
                (LOAD, 0, 0, FIRST_ARGUMENT),
                (EQUAL, 0, 1, everybody),
                (RETURN, 0, 0, REFUSE | errno.EPERM),
                *_unless_guest(SECOND_ARGUMENT),
                (RETURN, 0, 0, ALLOW),
            ]
            for name, everybody in _EVERY_PROCESS_OF_THE_USER.items()
        },
        **{
            name: [  # the kernel refuses anything that is not a descriptor
                (LOAD, 0, 0, FIRST_ARGUMENT),
                (GREATER_EQUAL, 1, 0, _NEGATIVE),
                (RETURN, 0, 0, PRETEND),
                (RETURN, 0, 0, ALLOW),
            ]
            for name in _FLUSHES
        },
        "clone": no_bit(FIRST_ARGUMENT, _CLONE_NEW_ANYTHING, errno.EPERM),
        "mknod": no_device(SECOND_ARGUMENT, THIRD_ARGUMENT),
        "mknodat": no_device(THIRD_ARGUMENT, FOURTH_ARGUMENT),
        "ioctl": [
            (LOAD, 0, 0, SECOND_ARGUMENT),
            (EQUAL, 2, 0, _TERMINAL_REQUESTS[0]),
            (EQUAL, 1, 0, _TERMINAL_REQUESTS[1]),
            (EQUAL, 0, 1, _TERMINAL_REQUESTS[2]),
            (RETURN, 0, 0, REFUSE | errno.EPERM),
            (RETURN, 0, 0, ALLOW),
        ],
        "socket": [
            (LOAD, 0, 0, FIRST_ARGUMENT),
            (EQUAL, 0, 1, _UNIX),
            (RETURN, 0, 0, ALLOW),
            (EQUAL, 0, len(routes := only(THIRD_ARGUMENT, (_ROUTES,), errno.EPROTONOSUPPORT)), _NETLINK),
            *routes,
            (EQUAL, 2, 0, _INET),
            (EQUAL, 1, 0, _INET6),
            (RETURN, 0, 0, REFUSE | errno.EAFNOSUPPORT),
            (LOAD, 0, 0, SECOND_ARGUMENT),
            (AND, 0, 0, _KIND_OF_SOCKET),
            (EQUAL, 2, 0, _STREAM),
            (EQUAL, 1, 0, _DATAGRAM),
            (RETURN, 0, 0, REFUSE | errno.ESOCKTNOSUPPORT),
            *only(THIRD_ARGUMENT, _INET_PROTOCOLS, errno.EPROTONOSUPPORT),
        ],
        "socketpair": only(FIRST_ARGUMENT, (_UNIX,), errno.EAFNOSUPPORT),
    }


def _socket_that_cannot_connect() -> list[Line]:
    """Return instructions that allow unix sockets of the kinds that send nothing before they are connected."""
    return [
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (EQUAL, 1, 0, _UNIX),
        (RETURN, 0, 0, REFUSE | errno.EAFNOSUPPORT),
        (LOAD, 0, 0, SECOND_ARGUMENT),
        (AND, 0, 0, _KIND_OF_SOCKET),
        (EQUAL, 2, 0, _STREAM),
        (EQUAL, 1, 0, _PACKETS),
        (RETURN, 0, 0, REFUSE | errno.ESOCKTNOSUPPORT),
        (RETURN, 0, 0, ALLOW),
    ]


def _socket_options() -> list[Line]:
    """Return instructions that allow the listed options of each listed level, and all options of other levels."""
    lines: list[Line] = [(LOAD, 0, 0, SECOND_ARGUMENT)]
    for level, options in SOCKET_OPTIONS.items():
        checks = [(LOAD, 0, 0, THIRD_ARGUMENT), *_members(options, errno.EPERM)]
        lines += [(EQUAL, 0, len(checks), level), *checks]
    return [*lines, (RETURN, 0, 0, ALLOW)]


def _members(numbers: Collection[int], error: int) -> list[Line]:
    """Return instructions that allow the system call if the accumulator holds one of `numbers`, and else refuse it with
    the errno `error`.
    """
    refused = REFUSE | error
    starts: list[tuple[int, int | str]] = [(0, ALLOW if 0 in numbers else refused)]
    for edge in sorted({edge for number in numbers for edge in (number, number + 1)} - {0}):
        verdict = ALLOW if edge in numbers else refused
        if starts[-1][1] != verdict:
            starts.append((edge, verdict))
    return tree(starts, {})


def _unless_guest(argument: int) -> list[Line]:
    """Return instructions that refuse a system call whose argument is the guest's pid.

    The guest's user id is the agent's, so the kernel alone would allow the call.
    """
    return [(LOAD, 0, 0, argument), (EQUAL, 0, 1, _GUEST), (RETURN, 0, 0, REFUSE | errno.EPERM)]
