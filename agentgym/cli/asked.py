"""What was asked under a label of a folder, so that resuming never mixes the episodes of two different questions."""

from __future__ import annotations

from typing import Any

from agentgym.errors import EvaluationError
from agentgym.storage.run_folder import RunFolder


def claim(folder: RunFolder, label: str, asked: dict[str, Any]) -> None:
    """Note what is asked under a label, or see that it is what was asked before.

    Raises: EvaluationError naming what differs.
    """
    name = f"asked/{label}.json"
    if not (folder.path / name).is_file():
        folder.write_json(name, asked)
        return
    before = folder.read_json(name)
    if differ := [key for key in {**before, **asked} if before.get(key) != asked.get(key)]:
        told = "; ".join(f"{key} was {before.get(key)!r}, now {asked.get(key)!r}" for key in differ)
        raise EvaluationError(
            f"{folder.path} already holds episodes under {label!r} of something else: {told}. Choose another --label "
            "or --out."
        )
