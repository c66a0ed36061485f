"""The limit on the buffers of a container's sockets, which runc does not set.

Control groups version 2 counts socket buffers as memory. Version 1 has a separate limit, without which a container
could fill gigabytes with data that no process reads.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup/memory")
_FILE = "memory.kmem.tcp.limit_in_bytes"  # counts UDP too, despite its name


def bound_socket_buffers(guest: socket.socket, memory: int) -> None:
    """Limit a container's socket buffers to `memory` bytes, before agent code runs.

    Does nothing without root, or if the daemon's control groups are not visible.

    Args:
        guest: the connection of the container's process 1, a unix socket.
    """
    pid, _, _ = struct.unpack("3i", guest.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                (_GROUPS / path.strip("/") / _FILE).write_text(str(memory))
