"""What a checkpoint was adapted to without labels: it travels with the weights, so that no measurement hides it."""

from __future__ import annotations

import json
from pathlib import Path

from agentgym.storage.run_folder import checkpoint_in

ADAPTED_FILE = "adapted.json"


def note_adaptations(checkpoint: Path, words: str) -> None:
    """Write into a checkpoint's folder what it was adapted to, if to anything."""
    if words and checkpoint.is_dir():
        (checkpoint / ADAPTED_FILE).write_text(json.dumps({"adapted": words}), encoding="utf-8")


def adaptations_of(path: str | Path | None) -> str:
    """Return what the checkpoint was adapted to that a path is, or the last one of a run folder; empty for anything
    else.
    """
    checkpoint = None if path is None else checkpoint_in(Path(path))
    if checkpoint is None or not (checkpoint / ADAPTED_FILE).is_file():
        return ""
    words: str = json.loads((checkpoint / ADAPTED_FILE).read_text(encoding="utf-8"))["adapted"]
    return words


def joined(*words: str) -> str:
    """Several adaptations in one text, each once."""
    return "; ".join(dict.fromkeys(part for text in words for part in text.split("; ") if part))
