"""How often held-out tasks were played: every look at them makes the next one a little less held out.

One line for each evaluation of a held-out split, in `held_out.jsonl` of the user's state folder:
$AGENTGYM_STATE_DIR, else $XDG_STATE_HOME/agentgym, else ~/.local/state/agentgym. AGENTGYM_STATE_DIR=off keeps none.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

FILE = "held_out.jsonl"


@dataclass(frozen=True, slots=True)
class Opening:
    """One evaluation of a held-out split.

    Attributes:
        task_set, fingerprint, manifest: what was played. `policy`, `label`, `seed`: by whom. `tasks`: how many.
        time: Unix seconds.
    """

    task_set: str
    fingerprint: str
    manifest: str
    policy: str
    label: str
    seed: int
    tasks: int
    time: float


def state_file() -> Path | None:
    """Where openings are noted; None where the user wants none."""
    chosen = os.environ.get("AGENTGYM_STATE_DIR")
    if chosen == "off":
        return None
    if chosen:
        return Path(chosen) / FILE
    base = os.environ.get("XDG_STATE_HOME")
    return (Path(base) if base else Path.home() / ".local" / "state") / "agentgym" / FILE


def openings(task_set: str, fingerprint: str) -> list[Opening]:
    """Every evaluation of this version of a task set's held-out split that was noted on this machine, oldest first."""
    path = state_file()
    if path is None or not path.is_file():
        return []
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = Opening(**json.loads(line))
        except (ValueError, TypeError):
            continue  # cut short by a kill, or written by another version
        if (row.task_set, row.fingerprint) == (task_set, fingerprint):
            found.append(row)
    return found


def note_opening(
    task_set: str,
    fingerprint: str,
    manifest: str,
    *,
    policy: str,
    label: str,
    seed: int,
    tasks: int,
    clock: float | None = None,
) -> int | None:
    """Note an evaluation, unless it is one that is there already and goes on.

    Returns: how many others were noted before; None where nothing can be noted.
    """
    path = state_file()
    if path is None:
        return None
    now = Opening(task_set, fingerprint, manifest, policy, label, seed, tasks, time.time() if clock is None else clock)
    try:
        before = openings(task_set, fingerprint)
        same = [one for one in before if _who(one) == _who(now)]
        if not same:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(now)) + "\n")
    except OSError:
        return None  # a home that cannot be written to must not stop an evaluation
    return len(before) - len(same)


def _who(one: Opening) -> tuple[object, ...]:
    return one.manifest, one.policy, one.label, one.seed
