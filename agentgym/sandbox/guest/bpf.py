"""Assembles classic BPF programs by which the kernel checks system calls."""

from __future__ import annotations

import errno
import struct

from .architecture import AUDIT

LOAD, JUMP, EQUAL, GREATER_EQUAL, ANY_BIT, AND, RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x54, 0x06
ALLOW, KILL, REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
TRACE = 0x7FF00000  # stop for the tracer
PRETEND = REFUSE  # errno 0: the call does nothing and reports success
NUMBER, ARCHITECTURE = 0, 4  # in seccomp_data
FIRST_ARGUMENT, SECOND_ARGUMENT, THIRD_ARGUMENT, FOURTH_ARGUMENT = 16, 24, 32, 40
Line = tuple[int, int, int, int]
"""Instruction code, jump offset if true, jump offset if false, value."""


def assembled(verdicts: dict[int, int | str], parts: dict[str, list[Line]], *, newest: int | None) -> bytes:
    """Return a filter with a verdict, or the name of one of `parts`, for each call by number; all others are allowed.

    `newest`: calls with a higher number do not exist; None without such a bound.
    """
    starts: list[tuple[int, int | str]] = [(0, ALLOW)]  # pairs of the first number and the verdict from that number on
    for number, verdict in sorted(verdicts.items()):
        if starts[-1][0] == number:
            starts.pop()
        starts += [(number, verdict), (number + 1, ALLOW)]
    if newest is not None:
        starts.append((newest + 1, REFUSE | errno.ENOSYS))  # also all x32 calls of x86-64
    head = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, AUDIT),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
    ]
    lines = head + tree(starts, parts)
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def tree(starts: list[tuple[int, int | str]], parts: dict[str, list[Line]]) -> list[Line]:
    """Return instructions that find the verdict on the number in the accumulator by bisection.

    Args:
        starts: pairs of a number and the verdict from that number on. A text names one of `parts`.
        parts: the instructions of verdicts that depend on arguments.
    """
    if len(starts) == 1:
        verdict = starts[0][1]
        return parts[verdict] if isinstance(verdict, str) else [(RETURN, 0, 0, verdict)]
    middle = len(starts) // 2
    lower, upper = tree(starts[:middle], parts), tree(starts[middle:], parts)
    if len(lower) <= 255:
        return [(GREATER_EQUAL, len(lower), 0, starts[middle][0]), *lower, *upper]
    return [(GREATER_EQUAL, 0, 1, starts[middle][0]), (JUMP, 0, 0, len(lower)), *lower, *upper]


def only(argument: int, values: tuple[int, ...], error: int) -> list[Line]:
    """Return instructions that allow the system call if an argument has one of `values`, and else refuse it with the
    errno `error`. `argument`: its offset in seccomp_data.
    """
    tests = [(EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [(LOAD, 0, 0, argument), *tests, (RETURN, 0, 0, REFUSE | error), (RETURN, 0, 0, ALLOW)]


def unless(argument: int, values: tuple[int, ...]) -> list[Line]:
    """Return instructions that refuse the system call with EPERM if an argument has one of `values`.

    `argument`: its offset in seccomp_data.
    """
    tests = [(EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
    return [(LOAD, 0, 0, argument), *tests, (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE | errno.EPERM)]
