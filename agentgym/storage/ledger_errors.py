"""Convert errors of SQLite and the disk to a LedgerError that names the file and says what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from agentgym.errors import LedgerError


class NamedErrors:
    """Context manager that converts errors of SQLite and the disk to a LedgerError with the file and a remedy."""

    __slots__ = ("_path", "_what")

    def __init__(self, path: Path, what: str) -> None:
        self._path, self._what = path, what

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (sqlite3.Error, OSError, UnicodeError, OverflowError)) and not isinstance(
            error, LedgerError
        ):
            raise LedgerError(f"The ledger {self._path} cannot be {self._what}: {error}. {_advice(error)}") from error


def _advice(error: BaseException) -> str:
    text = str(error).casefold()
    if "full" in text or "no space" in text:
        return "The disk is full: free some space and run again, finished episodes are kept."
    if "locked" in text or "busy" in text:
        return "Another process is writing it: wait for that run to end, or choose another path."
    if "not a database" in text or "malformed" in text:
        return "It is damaged or not a ledger: restore a copy, or choose another path."
    if "readonly" in text or "read-only" in text or "unable to open" in text or "permission" in text:
        return "Check that the folder exists and that you may write in it."
    if isinstance(error, (UnicodeError, OverflowError)):
        return "A task id, run name or token id cannot be stored: use plain text and ids below 2**31."
    if "closed" in text:
        return "It was closed: open it again with Ledger(path)."
    return "Check the disk, then run again: finished episodes are kept."
