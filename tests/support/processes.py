"""Processes of this machine, as /proc tells of them (Linux only; elsewhere none)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def process_files(name: str) -> Iterator[Path]:
    """The file of a name in the folder of every process, which may end meanwhile: reading it may raise an OSError.

    `Path.glob` raises one itself if a process ends while it looks.
    """
    processes = os.listdir("/proc") if os.path.isdir("/proc") else []
    return (Path("/proc", process, name) for process in processes if process.isdigit())
