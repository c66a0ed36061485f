"""Runs inside the agent's sandbox: lists executable files, and the targets of links.

Standard library only: this file is sent to the sandbox unchanged.
"""

from __future__ import annotations

import os
import stat

MAX_ENTRIES = 50_000


def entries(top: str) -> list[list[str]]:
    """Return the paths of executable files below a folder, and [path, target] of each link."""
    executable: list[str] = []
    links: list[list[str]] = []
    for folder, names, files in os.walk(os.fsencode(top)):
        for name in (*names, *files):
            path = os.path.join(folder, name)
            try:
                mode = os.lstat(path).st_mode
                short = os.fsdecode(os.path.relpath(path, os.fsencode(top)))
                if stat.S_ISLNK(mode):
                    links.append([short, os.fsdecode(os.readlink(path))])
                elif stat.S_ISREG(mode) and mode & 0o100:
                    executable.append(short)
            except OSError:
                continue  # the entry was removed meanwhile
            if len(links) + len(executable) >= MAX_ENTRIES:
                return [executable, *links]
    return [executable, *links]
