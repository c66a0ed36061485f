"""Counts what closed environments leave in this process: files, temporary folders, threads, tasks, processes."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

_watching: list[list[str]] = []


class LeakDetector:
    """Counts resources that grow. Create it after a warm-up, play episodes inside `watching`, then call `grown`."""

    def __init__(self) -> None:
        self._before = self._count()
        self._temporary: list[str] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record the temporary files and folders made inside the block."""
        if not _hooked:
            sys.addaudithook(_note_temporary)
            _hooked.append(True)
        _watching.append(self._temporary)
        try:
            yield
        finally:
            _watching.remove(self._temporary)

    def grown(self, episodes: int) -> list[str]:
        """Return what grew by at least one per episode, as phrases such as "3 open files (...)"."""
        now = self._count()
        phrases = []
        for kind, items in now.items():
            new = items - self._before[kind]
            if len(items) - len(self._before[kind]) >= episodes:
                phrases.append(f"{len(new)} {kind} ({', '.join(sorted(new)[:3])})")
        created_paths = [path for path in self._temporary if os.path.exists(path)]
        if len(created_paths) >= episodes:
            phrases.append(f"{len(created_paths)} temporary files or folders ({created_paths[0]})")
        return phrases

    @staticmethod
    def _count() -> dict[str, set[str]]:
        gc.collect()
        return {
            "open files": _open_files(),
            "threads": {f"{t.name} {t.ident}" for t in threading.enumerate() if not t.name.startswith("agentgym-tool")},
            "asyncio tasks": {task.get_name() for task in asyncio.all_tasks() if not task.done()},
            "processes": _children(),
        }


_hooked: list[bool] = []


def _note_temporary(event: str, arguments: tuple[Any, ...]) -> None:
    """Record temporary files while a detector watches. An audit hook cannot be removed from the process."""
    if _watching and event in ("tempfile.mkdtemp", "tempfile.mkstemp"):
        _watching[-1].append(str(arguments[0]))


def _open_files() -> set[str]:
    descriptors = set()
    folder = Path("/proc/self/fd")
    if folder.is_dir():
        for name in os.listdir(folder):
            with suppress(OSError):
                descriptors.add(f"{name}: {os.readlink(folder / name)}")
    return descriptors


def _children() -> set[str]:
    process_ids: set[str] = set()
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            process_ids.update(path.read_text().split())
    return process_ids
