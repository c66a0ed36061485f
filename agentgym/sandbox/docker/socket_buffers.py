"""The limit on the buffers of a container's sockets, which runc does not set.

Control groups of version 2 count them as memory. In version 1 they have a limit of their own, and without it a
container could fill gigabytes with data that nobody reads.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup/memory")
_FILE = "memory.kmem.tcp.limit_in_bytes"  # of UDP, too, whatever its name says


def bound_socket_buffers(guest: socket.socket, memory: int) -> None:
    """Let the sockets of a container hold at most `memory` bytes, before agent code runs.

    Only root can; for others, and where the daemon's control groups are not in sight, nothing happens.

    Args:
        guest: the connection of its process 1, a unix socket.
    """
    pid, _, _ = struct.unpack("3i", guest.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "memory" in controllers.split(","):
                (_GROUPS / path.strip("/") / _FILE).write_text(str(memory))
