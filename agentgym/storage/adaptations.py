"""Notes on the tasks that a checkpoint was adapted to without labels, stored with the weights for later evaluations."""

from __future__ import annotations

import json
from pathlib import Path

from agentgym.storage.run_folder import checkpoint_in

ADAPTED_FILE = "adapted.json"


def note_adaptations(checkpoint: Path, words: str) -> None:
    """Write into a checkpoint's folder `words`, which name the tasks that it was adapted to; write nothing for ""."""
    if words and checkpoint.is_dir():
        (checkpoint / ADAPTED_FILE).write_text(json.dumps({"adapted": words}), encoding="utf-8")


def adaptations_of(path: str | Path | None) -> str:
    """Return a text that names the tasks to which a checkpoint was adapted without labels; "" if none.

    `path`: a checkpoint, or a run folder, whose last checkpoint is meant.
    """
    checkpoint = None if path is None else checkpoint_in(Path(path))
    if checkpoint is None or not (checkpoint / ADAPTED_FILE).is_file():
        return ""
    words: str = json.loads((checkpoint / ADAPTED_FILE).read_text(encoding="utf-8"))["adapted"]
    return words


def joined(*words: str) -> str:
    """Join texts that name adapted tasks into one, without repetitions."""
    return "; ".join(dict.fromkeys(part for text in words for part in text.split("; ") if part))
