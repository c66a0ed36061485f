"""Checkpoint folders: finds the newest complete checkpoint, and keeps the last healthy one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

COMPLETE = "complete"
"""Name of an empty file that is written last into a checkpoint folder. A folder without this file is never resumed."""

BEST, RESULT = "best", "validation.json"
"""Names of the folder with the model of the best validation, and of the file in it that holds step and success."""

HEALTHY, STEP = "healthy", "step"
"""Names of the folder with the last healthy checkpoint, and of the file in it that holds its step."""


def keep_healthy(checkpoint: Path, target: Path) -> None:
    """Replace `target` by a copy of a checkpoint that also records its step."""
    copy_linked(checkpoint, target, {STEP: checkpoint.name.rpartition("-")[2]})


def copy_linked(checkpoint: Path, target: Path, texts: Mapping[str, str] = {}) -> None:
    """Replace `target` by a copy of a checkpoint, using hard links if the file system supports them.

    Args:
        texts: more files to write into the copy, by name.
    """
    partial = target.with_name(target.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        shutil.copytree(checkpoint, partial, copy_function=os.link)
    except (OSError, shutil.Error):
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(checkpoint, partial)
    for name, text in texts.items():
        (partial / name).write_text(text, encoding="utf-8")
    shutil.rmtree(target, ignore_errors=True)
    partial.rename(target)


def healthy_step(folder: Path) -> int | None:
    """Return the step of the healthy checkpoint in a folder; None if there is none."""
    file = folder / STEP
    return int(file.read_text(encoding="utf-8")) if file.is_file() else None


def best_validation(checkpoints: Path) -> tuple[int, float] | None:
    """Return step and success of the best validation whose model is kept in a run's checkpoints; None without one."""
    try:
        result = json.loads((checkpoints / BEST / RESULT).read_text(encoding="utf-8"))
        return int(result["step"]), float(result["success"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def latest_checkpoint(folder: Path) -> Path | None:
    """Return the newest complete checkpoint in a folder; None if there is none."""
    complete = [path for path in folder.glob("checkpoint-*") if (path / COMPLETE).is_file()]
    return max(complete, key=step_of, default=None)


def step_of(checkpoint: Path | None) -> int:
    """Return the step at which a checkpoint was saved; 0 for None."""
    return int(checkpoint.name.rpartition("-")[2]) if checkpoint else 0
