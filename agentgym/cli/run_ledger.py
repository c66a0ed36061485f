"""The ledger in the run folder of a command that plays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.storage.run_folder import RunFolder

if TYPE_CHECKING:
    from agentgym.rollout.config import RolloutConfig
    from agentgym.storage.ledger import Ledger


@contextmanager
def opened_ledger(folder: Path | None, config: RolloutConfig) -> Iterator[Ledger | None]:
    """Open the ledger of a run folder, connecting to the cluster before anything is written.

    Yields: the ledger, None without a folder.
    Raises: AgentGymError if the cluster cannot be reached; LedgerError if another command plays into the folder.
    """
    from agentgym.rollout.engine import ConnectingEngine
    from agentgym.storage.ledger import Ledger

    if isinstance(config.engine, ConnectingEngine):
        config.engine.connect()
    if folder is None:
        yield None
        return
    run_folder = RunFolder(folder).create()
    with run_folder.held(), closing(Ledger(run_folder.ledger)) as ledger:
        yield ledger
