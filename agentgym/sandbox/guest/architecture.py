"""What Linux numbers differently on each processor architecture: its system calls, and the registers of a thread."""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

_CALLS = {  # x86-64, arm64; None: only other calls do the same there
    "_sysctl": (156, None), "access": (21, None), "acct": (163, 89), "add_key": (248, 217), "adjtimex": (159, 171),
    "bpf": (321, 280), "capget": (125, 90), "capset": (126, 91), "chdir": (80, 49), "chmod": (90, None),
    "chown": (92, None), "chroot": (161, 51), "clock_adjtime": (305, 266), "clock_settime": (227, 112),
    "clone": (56, 220), "clone3": (435, 435), "close_range": (436, 436), "connect": (42, 203), "creat": (85, None),
    "delete_module": (176, 106), "dup3": (292, 24), "execve": (59, 221), "execveat": (322, 281),
    "faccessat": (269, 48), "faccessat2": (439, 439), "fadvise64": (221, 223), "fanotify_init": (300, 262),
    "fchdir": (81, 50), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "fchown": (93, 55),
    "fchownat": (260, 54), "fcntl": (72, 25), "fdatasync": (75, 83), "file_setattr": (469, 469),
    "finit_module": (313, 273), "fremovexattr": (199, 16), "fsconfig": (431, 431), "fsetxattr": (190, 7),
    "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433), "fsync": (74, 82), "futimesat": (261, None),
    "getcwd": (79, 17), "getxattr": (191, 8), "init_module": (175, 105), "inotify_init": (253, None),
    "inotify_init1": (294, 26), "io_setup": (206, 0), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425), "ioctl": (16, 29), "ioperm": (173, None), "iopl": (172, None),
    "ioprio_set": (251, 30), "kcmp": (312, 272), "kexec_file_load": (320, 294), "kexec_load": (246, 104),
    "keyctl": (250, 219), "kill": (62, 129), "landlock_add_rule": (445, 445), "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446), "lchown": (94, None), "lgetxattr": (192, 9), "link": (86, None),
    "linkat": (265, 37), "listxattr": (194, 11), "llistxattr": (195, 12), "lookup_dcookie": (212, 18),
    "lremovexattr": (198, 15), "lsetxattr": (189, 6), "lstat": (6, None), "mbind": (237, 235),
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "migrate_pages": (256, 238), "mkdir": (83, None),
    "mkdirat": (258, 34), "mknod": (133, None), "mknodat": (259, 33), "mmap": (9, 222), "modify_ldt": (154, None),
    "mount": (165, 40), "mount_setattr": (442, 442), "move_mount": (429, 429), "move_pages": (279, 239),
    "mq_open": (240, 180), "msgget": (68, 186), "msync": (26, 227), "name_to_handle_at": (303, 264),
    "newfstatat": (262, 79), "nfsservctl": (180, 42), "open": (2, None), "open_by_handle_at": (304, 265),
    "open_tree": (428, 428), "open_tree_attr": (467, 467), "openat": (257, 56), "openat2": (437, 437),
    "perf_event_open": (298, 241), "personality": (135, 92), "pidfd_getfd": (438, 438), "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424), "pivot_root": (155, 41), "ppoll": (271, 73), "prctl": (157, 167),
    "prlimit64": (302, 261), "process_madvise": (440, 440), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "ptrace": (101, 117), "quotactl": (179, 60), "quotactl_fd": (443, 443),
    "readlink": (89, None), "readlinkat": (267, 78), "reboot": (169, 142), "removexattr": (197, 14),
    "removexattrat": (466, 466), "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276),
    "request_key": (249, 218), "rmdir": (84, None), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "sched_setaffinity": (203, 122), "sched_setattr": (314, 274), "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119), "seccomp": (317, 277), "semget": (64, 190), "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450), "setdomainname": (171, 162), "setfsgid": (123, 152), "setfsuid": (122, 151),
    "setgid": (106, 144), "setgroups": (116, 159), "sethostname": (170, 161), "setns": (308, 268),
    "setpriority": (141, 140), "setregid": (114, 143), "setresgid": (119, 149), "setresuid": (117, 147),
    "setreuid": (113, 145), "setrlimit": (160, 164), "setsockopt": (54, 208), "settimeofday": (164, 170),
    "setuid": (105, 146), "setxattr": (188, 5), "setxattrat": (463, 463), "shmget": (29, 194), "socket": (41, 198),
    "socketpair": (53, 199), "stat": (4, None), "statfs": (137, 43), "statx": (332, 291), "swapoff": (168, 225),
    "swapon": (167, 224), "symlink": (88, None), "symlinkat": (266, 36), "sync": (162, 81),
    "sync_file_range": (277, 84), "syncfs": (306, 267), "syslog": (103, 116), "tgkill": (234, 131),
    "timer_create": (222, 107), "tkill": (200, 130), "truncate": (76, 45), "umount2": (166, 39), "unlink": (87, None),
    "unlinkat": (263, 35), "unshare": (272, 97), "uselib": (134, None), "userfaultfd": (323, 282),
    "utime": (132, None), "utimensat": (280, 88), "utimes": (235, None), "vhangup": (153, 58), "write": (1, 64),
}  # fmt: skip


class Registers(NamedTuple):
    """Where PTRACE_GETREGSET finds what a tracer needs, as indices of 64-bit words."""

    words: int
    arguments: tuple[int, ...]  # of a system call
    number: int  # of a system call
    result: int
    stack: int
    call_set: int | None  # the set of registers that holds the call to make, if writing `number` does not change it


class _Architecture(NamedTuple):
    column: int
    audit: int  # AUDIT_ARCH_*, by which a filter knows it
    registers: Registers


_ARCHITECTURES = {
    # rdi, rsi, rdx, r10, r8, r9; orig_rax, rax, rsp
    "x86_64": _Architecture(0, 0xC000003E, Registers(27, (14, 13, 12, 7, 9, 8), 15, 10, 19, None)),
    # x0 to x5; x8, x0, sp; NT_ARM_SYSTEM_CALL
    "aarch64": _Architecture(1, 0xC00000B7, Registers(34, (0, 1, 2, 3, 4, 5), 8, 0, 31, 0x404)),
}
_PROCESSOR = os.uname().machine
_OURS = _ARCHITECTURES.get(_PROCESSOR, _ARCHITECTURES["x86_64"])

AUDIT, REGISTERS = _OURS.audit, _OURS.registers
CALLS = {name: number for name, row in _CALLS.items() if (number := row[_OURS.column]) is not None}
"""The numbers of the system calls that this architecture has."""


def unsupported() -> str | None:
    """Return why no sandbox can be made by this machine; None if it can."""
    if os.uname().sysname != "Linux":
        return (
            f"this machine runs {os.uname().sysname}, and sandboxes need Linux. Text sets play here; for the others "
            "run agentgym in a Linux container (docker/Dockerfile makes its image) or a virtual machine"
        )
    if _PROCESSOR in _ARCHITECTURES and sys.maxsize > 2**32:
        return None
    bits = "" if sys.maxsize > 2**32 else " with a 32-bit Python"
    return f"this machine is {_PROCESSOR}{bits}; sandboxes run on {' and '.join(_ARCHITECTURES)} with a 64-bit Python"


def numbers(*names: str) -> tuple[int, ...]:
    """Return the numbers of those calls that this architecture has."""
    return tuple(number for name in names if (number := _CALLS[name][_OURS.column]) is not None)
