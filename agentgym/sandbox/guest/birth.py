"""From a fork of the spawner to process 1 of a sandbox: the guest, or the builder of a layer."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Callable
from typing import Any, NoReturn

from . import archive, boot, kernel, server

PID = struct.Struct("i")  # what a helper reports: process 1, by the spawner's numbers
MAPPED, ALONE = b"m", b"a"  # what process 1 is told: it has its user ids; its helper is gone, the spawner its parent


def help_to_life(
    spec: dict[str, Any], source: int, go: int, report: int, kept: tuple[int, ...], join: Callable[[], None]
) -> NoReturn:
    """The helper: enters new namespaces when told to go, and forks what becomes process 1 there.

    Args:
        spec: the order, as the host sent it.
        source: the guest's end of the control socket, or the archive of a layer.
        go, report: pipes from and to the spawner.
        kept: further descriptors for process 1.
        join: has this process join the control groups, as far as it has to do that itself.
    """
    try:
        kernel.die_with_parent()
        join()
        kernel.unshare(boot.NAMESPACES)
        if os.read(go, 1) != b"f":
            os._exit(1)
        guest = os.fork()
        if guest:
            os.write(report, PID.pack(guest))
            os._exit(0)
        _become_first(spec, [source, go, *kept])
    except OSError as error:
        os.write(report, describe(error).encode())
    finally:
        os._exit(1)  # never back into the spawner's loop


def _become_first(spec: dict[str, Any], descriptors: list[int]) -> NoReturn:
    """Process 1 of the sandbox. Keeps the given descriptors, as 3, 4, ..., and no other."""
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 200) for descriptor in descriptors]
    for position, descriptor in enumerate(high):
        os.dup2(descriptor, 3 + position, inheritable=False)
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    kernel.close_from(3 + len(high))
    _await(MAPPED)
    if "layer" in spec:
        _build(spec)
    control = socket.socket(fileno=3)
    try:
        changes = boot.confine(spec, _tie_to_spawner)
    except OSError as error:
        server.refuse(control, describe(error))
    server.serve(control, spec, (5, 6) if len(high) == 4 else None, changes)


def _await(word: bytes) -> None:
    if os.read(4, 1) != word:
        os._exit(1)  # the spawner is gone, or wants this sandbox no more


def _tie_to_spawner() -> None:
    """Die with it; before that, its end is noticed at the pipe. Not sooner: the tie would be to the helper's life."""
    _await(ALONE)
    os.close(4)
    kernel.die_with_parent()


def _build(order: dict[str, Any]) -> NoReturn:
    """Make a layer of the archive that is descriptor 3, and tell descriptor 5 how many bytes it takes."""
    try:
        boot.confine_builder(order, _tie_to_spawner)
        os.lseek(3, 0, os.SEEK_SET)
        with open(3, "rb") as source:
            used = archive.unpack(source, as_layer=True)
        os.write(5, str(used).encode())
        os._exit(0)
    except OSError as error:
        os.write(5, describe(error).encode())
    except ValueError as error:
        os.write(5, str(error).encode()[:2000])
    finally:
        os._exit(1)


def describe(error: OSError) -> str:
    return f"{error.strerror or error}" + (f" at {error.filename2 or error.filename}" if error.filename else "")
