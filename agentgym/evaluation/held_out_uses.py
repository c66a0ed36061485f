"""Count how often held-out tasks were evaluated on this machine: every evaluation makes them a little less held out.

Each evaluation of a held-out split is one line in `held_out.jsonl` in the user's state folder:
$AGENTGYM_STATE_DIR, else $XDG_STATE_HOME/agentgym, else ~/.local/state/agentgym. AGENTGYM_STATE_DIR=off disables it.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

FILE = "held_out.jsonl"


@dataclass(frozen=True, slots=True)
class HeldOutUse:
    """One evaluation of a held-out split."""

    task_set: str
    """The name of the task set that was played."""
    fingerprint: str
    """The fingerprint of the whole task set."""
    manifest: str
    """A hash of the tasks that were played."""
    policy: str
    """The name of the agent."""
    label: str
    """The label of the evaluation."""
    seed: int
    """The seed of the evaluation."""
    tasks: int
    """How many tasks were played."""
    time: float = field(default_factory=time.time)
    """When the use was recorded, in Unix seconds."""


def state_file() -> Path | None:
    """Return the file in which uses are recorded; None if the user disabled it."""
    chosen = os.environ.get("AGENTGYM_STATE_DIR")
    if chosen == "off":
        return None
    if chosen:
        return Path(chosen) / FILE
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "agentgym" / FILE


def held_out_uses(task_set: str, fingerprint: str) -> list[HeldOutUse]:
    """Return the recorded evaluations of this version of a held-out split on this machine, oldest first."""
    path = state_file()
    if path is None or not path.is_file():
        return []
    uses = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            use = HeldOutUse(**json.loads(line))
        except (ValueError, TypeError):
            continue  # truncated by a kill, or written by another version
        if (use.task_set, use.fingerprint) == (task_set, fingerprint):
            uses.append(use)
    return uses


def note_use(use: HeldOutUse, *, judged: bool = True) -> int | None:
    """Record an evaluation, unless it was recorded before and is now resumed.

    Args:
        judged: whether any episode was judged; if not, nothing was learnt about the tasks, and nothing is recorded.
    Returns: how many other evaluations were recorded before; None if recording is impossible.
    """
    path = state_file()
    if path is None:
        return None
    try:
        before = held_out_uses(use.task_set, use.fingerprint)
        same = [earlier for earlier in before if _identity(earlier) == _identity(use)]
        if judged and not same:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(use)) + "\n")
    except OSError:
        return None  # an unwritable home must not stop an evaluation
    return len(before) - len(same)


def _identity(use: HeldOutUse) -> tuple[object, ...]:
    return use.manifest, use.policy, use.label, use.seed
