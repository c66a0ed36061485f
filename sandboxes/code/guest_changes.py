"""Runs inside the agent's sandbox: says what each changed path is.

Standard library only: this file is sent to the sandbox unchanged.
"""

from __future__ import annotations

import os
import stat

MAX_NAMES = 100_000


def kinds(paths: list[str]) -> list[list[object]]:
    """Return [mode with its type bits, size, target of a link, names in a folder] for each path.

    For a path that is gone, the mode is 0. Raises: ValueError for more than MAX_NAMES names.
    """
    rows: list[list[object]] = []
    left = MAX_NAMES
    for path in map(os.fsencode, paths):
        try:
            status = os.lstat(path)
            target = os.fsdecode(os.readlink(path)) if stat.S_ISLNK(status.st_mode) else ""
            names = sorted(map(os.fsdecode, os.listdir(path))) if stat.S_ISDIR(status.st_mode) else []
            rows.append([status.st_mode, status.st_size, target, names])
        except OSError:
            rows.append([0, 0, "", []])
            continue
        left -= len(names)
        if left < 0:
            raise ValueError("the changed folders hold too many names")
    return rows
