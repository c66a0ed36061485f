"""Small trainings whose stages are listed, and runs of them that are killed and go on."""

from __future__ import annotations

import io
import signal
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from forks import Fork
from lookup_environment import PRESS
from lookup_runs import recipe
from rich.console import Console

from agentgym.storage.ledger import Ledger
from agentgym.training import Recipe, train


def with_stages(*stages: dict, **changes) -> Recipe:
    return Recipe.parse(recipe(**changes).model_dump(exclude_none=True) | {"stage": list(stages)})


def run(chosen: Recipe, folder: Path, **options) -> str:
    output = io.StringIO()
    train(chosen, folder=folder, console=Console(file=output, width=200), **options)
    return output.getvalue()


PLAYERS = [{"kind": "collect", "name": name, "options": {"policy": name}} for name in ("oracle", "imperfect_oracle")]
BOTH = ["oracle", "imperfect_oracle"]
IMITATE = {"kind": "imitate", "name": "start", "options": {"steps": 15, "imperfect_oracle": 0.5}}


def pressing(*stages: dict, start: str | None = None) -> Recipe:
    """A recipe in which there are two buttons; its policy goes on from a run."""
    data = with_stages(*stages).model_dump(exclude_none=True)
    data["tasks"] = {"set": PRESS}
    data["episode"] = data["episode"] | {"max_turns": 1}
    data["warm_start"] = data["warm_start"] | {"demonstrations": 32, "validate_every": 1000}
    data["evaluate"] = data["evaluate"] | {"tasks": 4}
    if start is not None:
        data["policy"] = {"path": start, "call_format": "hermes"}
    return Recipe.parse(data)


def forget_episodes(folder: Path, label: str) -> None:
    """Of the label itself, of labels that begin with it and a "-", and of the searches that led to them."""
    ledger = Ledger(folder / "ledger.sqlite")
    for prefix in (label, f"searched-{label}", f"nodes-searched-{label}"):
        for each in {episode.id.partition("/")[0] for episode in ledger.trajectories(prefix)}:
            if each == prefix or each.startswith(f"{prefix}-"):
                ledger.relabel(each, f"former-{each}")
    ledger.close()


def finished(folder: Path, label: str) -> int:
    connection = sqlite3.connect(folder / "ledger.sqlite")
    query = "SELECT count(*) FROM episode WHERE turns IS NOT NULL AND (id LIKE ? || '/%' OR id LIKE ? || '-%')"
    count = connection.execute(query, (label, label)).fetchone()[0]
    connection.close()
    return int(count)


def killed_run(chosen: Recipe, folder: Path, is_within: Callable[[], bool]) -> None:
    """Resume the run in a process of its own, and kill it once it is within the stage."""
    process = Fork(lambda: run(chosen, folder, resume=True))
    deadline = time.monotonic() + 120
    while not is_within():
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
