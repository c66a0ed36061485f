"""Carries an episode's lines between its channel and the hub. Started as a file of its own, for every episode."""

from __future__ import annotations

import os
import select
import socket
import sys


def main() -> None:
    """Copy both ways until either side ends."""
    hub = socket.socket(socket.AF_UNIX)
    hub.connect(sys.argv[1])
    theirs = hub.fileno()
    while True:
        ready, _, _ = select.select([0, theirs], [], [])
        if 0 in ready:
            data = os.read(0, 1 << 16)
            if not data:
                return
            hub.sendall(data)
        if theirs in ready:
            data = hub.recv(1 << 16)
            if not data:
                return
            while data:
                data = data[os.write(1, data) :]


if __name__ == "__main__":
    main()
