"""Runs inside the agent's own sandbox: prints all of its files as one JSON object, which is what is handed in.

Standard library only: this text is sent to the sandbox as it stands. Whatever the agent did to this process, what it
prints is its submission and nothing more; links and pipes are left out.
"""

from __future__ import annotations

import base64
import json
import os
import stat
import sys

MAX_FILES, MAX_BYTES = 400, 600_000
SKIPPED = ("__pycache__", ".git")


def collect(top: str) -> None:
    """Print {"files": texts by path, "binary": base64 by path, "executable": paths, "folders": empty ones}."""
    contents: dict[str, dict[str, str]] = {"files": {}, "binary": {}}
    executable: list[str] = []
    folders: list[str] = []
    size = 0
    for folder, names, entries in os.walk(top):
        names[:] = sorted(set(names) - set(SKIPPED))
        if not names and not entries and folder != top:
            folders.append(os.path.relpath(folder, top))
        for name in sorted(entries):
            path = os.path.join(folder, name)
            about = os.lstat(path)
            if not stat.S_ISREG(about.st_mode):
                continue
            size += about.st_size
            if size > MAX_BYTES or len(contents["files"]) + len(contents["binary"]) >= MAX_FILES:
                sys.exit(f"more than {MAX_FILES} files or {MAX_BYTES} bytes: remove what does not belong there")
            with open(path, "rb") as file:
                raw = file.read(MAX_BYTES)
            short = os.path.relpath(path, top)
            try:
                contents["files"][short] = raw.decode()
            except UnicodeDecodeError:
                contents["binary"][short] = base64.b64encode(raw).decode()
            if about.st_mode & 0o100:
                executable.append(short)
    print(json.dumps({**contents, "executable": executable, "folders": sorted(folders)}, sort_keys=True))
