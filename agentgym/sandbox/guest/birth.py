"""From a fork of the spawner, in new namespaces, to process 1 of a sandbox: the guest, or the builder of a layer."""

from __future__ import annotations

import fcntl
import os
import select
import socket
from collections.abc import Callable
from typing import Any, NoReturn

from . import archive, boot, kernel, server

GO = b"g"  # what process 1 is told: it has its user ids and its control groups
_SPAWNER, _KEPT = 4, 5  # places of descriptors; 3 is the control socket, or the archive of a layer


def become_first(
    spec: dict[str, Any], source: int, go: int, spawner: int, said: int, join: Callable[[], tuple[int, ...]]
) -> NoReturn:
    """Go on as process 1 of the sandbox, when told to. Keeps few descriptors.

    Args:
        spec: the order, as the host sent it.
        source: the guest's end of the control socket, or the archive of a layer.
        go: pipe from the spawner. spawner: its pidfd.
        said: pipe to the spawner, of the builder of a layer.
        join: has this process join the control groups, as far as it has to do that itself; gives what
            `server.serve` takes as `memory`, or nothing.
    """
    try:
        if os.read(go, 1) != GO:
            os._exit(1)  # the spawner is gone, or could not
        if "layer" in spec:
            _keep([source, spawner, said])
            _build(spec)
        control = socket.socket(fileno=source)
        try:
            memory = join()
            _keep([control.detach(), spawner, *memory])
            control = socket.socket(fileno=3)
            changes = boot.confine(spec, _tie_to_spawner)
        except OSError as error:
            server.refuse(control, describe(error))
        server.serve(control, spec, (_KEPT, _KEPT + 1) if memory else None, changes)
    finally:
        os._exit(1)  # never back into the spawner's loop


def _keep(descriptors: list[int]) -> None:
    """Keep these as 3, 4, ..., and no other."""
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 200) for descriptor in descriptors]
    for position, descriptor in enumerate(high):
        os.dup2(descriptor, 3 + position, inheritable=False)
    null = os.open("/dev/null", os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    kernel.close_from(3 + len(high))


def _tie_to_spawner() -> None:
    """Die with it, also if it died just before."""
    kernel.die_with_parent()
    if select.select([_SPAWNER], [], [], 0)[0]:
        os._exit(1)
    os.close(_SPAWNER)


def _build(order: dict[str, Any]) -> NoReturn:
    """Make a layer of the archive that is descriptor 3, and tell the spawner how many bytes it takes."""
    try:
        boot.confine_builder(order, _tie_to_spawner)
        os.lseek(3, 0, os.SEEK_SET)
        with open(3, "rb") as source:
            used = archive.unpack(source, as_layer=True)
        os.write(_KEPT, str(used).encode())
        os._exit(0)
    except OSError as error:
        os.write(_KEPT, describe(error).encode())
    except ValueError as error:
        os.write(_KEPT, str(error).encode()[:2000])
    finally:
        os._exit(1)


def describe(error: OSError) -> str:
    return f"{error.strerror or error}" + (f" at {error.filename2 or error.filename}" if error.filename else "")
