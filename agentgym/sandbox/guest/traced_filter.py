"""The second filter of agent code among the machine's other processes: it stops calls for the tracer, and keeps agent
code from acting on processes of the same user.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable

from .architecture import CALLS, numbers
from .bpf import (
    ALLOW,
    ANY_BIT,
    FIRST_ARGUMENT,
    LOAD,
    REFUSE,
    RETURN,
    SECOND_ARGUMENT,
    TRACE,
    assembled,
    only,
    unless,
)

_SIGNAL_COMMANDS = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX: have the kernel signal any process of the user
_SIGNAL_REQUESTS = (0x8901, 0x8902)  # FIOSETOWN and SIOCSPGRP, the same
_SIGNALS = ("tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open")
_OF_A_PROCESS = ("prlimit64", "sched_setparam", "sched_setscheduler", "sched_setaffinity", "sched_setattr")
_ATTRIBUTES = """setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr setxattrat removexattrat
    file_setattr"""
_CLONE_UNTRACED = 0x00800000


def program(traced: Iterable[int], pids: tuple[int, ...], *, alone: bool) -> bytes:
    """Return a second filter, for agent code among the machine's other processes.

    Args:
        traced: numbers of the calls at which a process stops for its tracer.
        pids: processes of the same user that agent code may not signal or change: the guest and its tracer.
        alone: whether these are the only ones. If not, a process may change the limits and priorities of no process but
            itself, and no attributes of files.
    """
    groups = tuple(-pid & 0xFFFFFFFF for pid in pids)
    everybody = 0xFFFFFFFF  # kill(-1)
    refused = REFUSE | errno.EPERM

    calls: dict[int, int | str] = dict.fromkeys(traced, TRACE)
    parts = {
        "kill": unless(FIRST_ARGUMENT, (*pids, *groups, everybody)),
        "first": unless(FIRST_ARGUMENT, pids),
        "second": unless(SECOND_ARGUMENT, pids),
        "self": only(FIRST_ARGUMENT, (0,), errno.EPERM),
        "second_self": only(SECOND_ARGUMENT, (0,), errno.EPERM),
        "fcntl": unless(SECOND_ARGUMENT, _SIGNAL_COMMANDS),
        "ioctl": unless(SECOND_ARGUMENT, _SIGNAL_REQUESTS),
        "clone": [
            (LOAD, 0, 0, FIRST_ARGUMENT),
            (ANY_BIT, 0, 1, _CLONE_UNTRACED),
            (RETURN, 0, 0, refused),
            (RETURN, 0, 0, ALLOW),
        ],
    }
    calls |= {CALLS[name]: name for name in ("kill", "fcntl", "ioctl", "clone")}
    calls |= dict.fromkeys(numbers("pidfd_send_signal"), refused)
    calls |= dict.fromkeys(numbers(*_SIGNALS), "first")
    calls |= dict.fromkeys(numbers(*_OF_A_PROCESS), "first" if alone else "self")
    calls |= dict.fromkeys(numbers("setpriority", "ioprio_set"), "second" if alone else "second_self")
    if not alone:
        calls |= dict.fromkeys(numbers(*_ATTRIBUTES.split()), REFUSE | errno.EOPNOTSUPP)
    return assembled(calls, parts, newest=None)
