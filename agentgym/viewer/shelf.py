"""Find the run folders under the paths that the user named, and give each a short name for URLs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from agentgym.errors import LedgerError
from agentgym.storage.run_folder import RunFolder

DEPTH = 3
"""How many folder levels below a named path are searched: runs/<experiment>/<run>."""
MAX_FOLDERS = 20_000


def find_runs(paths: Sequence[Path]) -> dict[str, Path]:
    """Return run folders by key, ordered by path and then by name.

    A key consists of letters, digits, dots, hyphens and underscores, with ~N after a repeated name. A key stays the
    same across searches unless a run of the same name appears before it.
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
    except OSError:  # an unreadable folder is not ours
        return []
    return [run for folder in below for run in _runs_in(folder, depth - 1, seen)] if depth else []


def named_runs(paths: Sequence[Path]) -> dict[str, Path]:
    """Find the runs in paths that a user typed. Raises: LedgerError for a path that is not a folder."""
    for path in paths:
        if not path.is_dir():
            raise LedgerError(
                f"There is no folder {path}. Name a run folder, or a folder that contains runs, for example runs."
            )
    return find_runs(paths)
