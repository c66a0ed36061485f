"""Storage: the ledger that keeps every finished turn, the reader of ledgers, and the layout of a run folder."""

from agentgym.storage.ledger import Ledger
from agentgym.storage.reader import LedgerReader
from agentgym.storage.run_folder import RunFolder, checkpoint_in

__all__ = ["Ledger", "LedgerReader", "RunFolder", "checkpoint_in"]
