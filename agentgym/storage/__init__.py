"""Storage: the ledger, which stores every finished turn; its reader; the layout of run folders; journals of jobs."""

from agentgym.moved import moved_names
from agentgym.storage.failures import count_failures
from agentgym.storage.journal import Journal
from agentgym.storage.ledger import Ledger
from agentgym.storage.run_folder import RunFolder

__all__ = [
    "Journal",
    "Ledger",
    "RunFolder",
    "count_failures",
]


__getattr__ = moved_names(__name__)
