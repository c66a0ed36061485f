"""Finds the run folders under the paths a person named, and gives each a short name for addresses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from agentgym.errors import LedgerError
from agentgym.storage.run_folder import RunFolder

DEPTH = 3
"""Folders below a named path that are looked into: runs/<experiment>/<run>."""
MAX_FOLDERS = 20_000


def find_runs(paths: Sequence[Path]) -> dict[str, Path]:
    """Run folders by key, in order of the paths and then of their names.

    A key is made of letters, digits, dots, hyphens and underscores alone; it is the same at every look as long as no
    run of the same name comes before.
    """
    runs: dict[str, Path] = {}
    seen: set[Path] = set()
    for path in paths:
        for folder in _runs_in(path, DEPTH, seen):
            inside = folder.relative_to(path).parts if folder != path else (folder.resolve().name,)
            key = name = re.sub(r"[^A-Za-z0-9._-]+", "-", "--".join(inside)).strip(".-") or "run"
            number = 2
            while key in runs:
                key, number = f"{name}~{number}", number + 1
            runs[key] = folder
    return runs


def _runs_in(path: Path, depth: int, seen: set[Path]) -> list[Path]:
    try:
        real = path.resolve()
        if real in seen or len(seen) > MAX_FOLDERS or not path.is_dir():
            return []
        seen.add(real)
        if RunFolder.is_run(path):
            return [path]
        below = sorted(item for item in path.iterdir() if item.is_dir() and not item.name.startswith("."))
    except OSError:  # a folder that we may not read is none of ours
        return []
    return [run for folder in below for run in _runs_in(folder, depth - 1, seen)] if depth else []


def named_runs(paths: Sequence[Path]) -> dict[str, Path]:
    """As find_runs, for a person who just typed the paths. Raises: LedgerError for a path that is not a folder."""
    for path in paths:
        if not path.is_dir():
            raise LedgerError(
                f"There is no folder {path}. Name a run folder, or a folder with runs in it, for example runs."
            )
    return find_runs(paths)
