"""Runs inside the agent's sandbox: prints all of its files as one JSON object, which is the submission.

Standard library only: this file is sent to the sandbox unchanged. Even if the agent takes over this process, it can
only change its own submission. Links and pipes are left out.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import stat
import sys

MAX_FILES, MAX_BYTES, MAX_PACKED = 400, 600_000, 1_400_000
SHORT = 1_000  # text is sent as text if it then takes at most this many more characters than in base64
SKIPPED = ("__pycache__", ".git")


def collect(top: str) -> None:
    """Print {"files": texts by path, "binary": base64 by path, "executable": paths, "folders": empty ones}.

    A text that is longer in JSON than in base64, for example one of control characters, is sent as binary. Output that
    would not fit into a final result is refused, so that it is never cut.
    """
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
            kind, content = "binary", base64.b64encode(raw).decode()
            with contextlib.suppress(UnicodeDecodeError):
                if len(json.dumps(text := raw.decode(), ensure_ascii=False)) <= len(content) + SHORT:
                    kind, content = "files", text
            contents[kind][short] = content
            if about.st_mode & 0o100:
                executable.append(short)
    handed_in = {**contents, "executable": executable, "folders": sorted(folders)}
    packed = json.dumps(handed_in, sort_keys=True, ensure_ascii=False).encode("utf-8", "replace")
    if len(packed) > MAX_PACKED:
        sys.exit(f"more than {MAX_PACKED} bytes with the names of all files and folders: remove some")
    sys.stdout.buffer.write(packed)
