"""Copies the lines of one episode between its channel and the hub. Started as a script for every episode."""

from __future__ import annotations

import os
import select
import socket
import sys


def main() -> None:
    """Copy in both directions until either side ends."""
    hub = socket.socket(socket.AF_UNIX)
    hub.connect(sys.argv[1])
    hub_fd = hub.fileno()
    while True:
        ready, _, _ = select.select([0, hub_fd], [], [])
        if 0 in ready:
            data = os.read(0, 1 << 16)
            if not data:
                return
            hub.sendall(data)
        if hub_fd in ready:
            data = hub.recv(1 << 16)
            if not data:
                return
            while data:
                data = data[os.write(1, data) :]


if __name__ == "__main__":
    main()
