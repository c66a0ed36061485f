"""The ledger in the run folder of a command that plays, or that reads what was played."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentgym.rollout.config import RolloutConfig
    from agentgym.storage.ledger import Ledger
    from agentgym.storage.run_folder import RunFolder


@contextmanager
def opened_ledger(folder: Path | None, config: RolloutConfig) -> Iterator[Ledger | None]:
    """Open the ledger of a run folder, connecting to the cluster before anything is written.

    Yields: the ledger, None without a folder.
    Raises: AgentGymError if the cluster cannot be reached; LedgerError if another command plays into the folder.
    """
    from agentgym.rollout.engine import ConnectingEngine
    from agentgym.storage.run_folder import RunFolder

    if isinstance(config.engine, ConnectingEngine):
        config.engine.connect()
    held = RunFolder(folder).create().held() if folder else nullcontext()
    with held, new_ledger(folder) as ledger:
        yield ledger


def say_what_is_there(ledger: Ledger | None, label: str, episodes: int) -> None:
    """Say how many of the episodes to play are in the ledger already; nothing if none is."""
    from agentgym.cli.console import err

    there = len(ledger.finished(label)) if ledger is not None else 0
    if ledger is not None and there:
        rest = "nothing is left to play" if there >= episodes else "the others are played now"
        line = f"{min(there, episodes):,} of {episodes:,} episodes are in {ledger.path.parent} already; {rest}."
        err().print(line, style="dim", markup=False, soft_wrap=True)


@contextmanager
def new_ledger(folder: Path | None) -> Iterator[Ledger | None]:
    """Open the ledger of a run folder, which is created if it is missing; other commands may play into it as well.

    Yields: the ledger, None without a folder.
    """
    from agentgym.storage.ledger import Ledger
    from agentgym.storage.run_folder import RunFolder

    if folder is None:
        yield None
        return
    with closing(Ledger(RunFolder(folder).create().ledger)) as ledger:
        yield ledger


def open_run(path: Path) -> tuple[RunFolder, Ledger]:
    """Return the folder of an existing run and its ledger. Raises: LedgerError if the folder holds no episodes."""
    from agentgym.storage.ledger import Ledger
    from agentgym.storage.run_folder import RunFolder

    run_folder = RunFolder.existing(path)
    return run_folder, Ledger(run_folder.existing_ledger())
