"""Notes that a user writes on a run and on its episodes: notes.json in the run folder, which no training reads."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agentgym.errors import LedgerError
from agentgym.storage.run_folder import RunFolder
from agentgym.text import visible

MAX_LENGTH = 2_000
"""The maximum number of characters of a note."""
_FILE, _LOCK = "notes.json", ".notes.lock"


def read_notes(run: Path) -> dict[str, str]:
    """Return the notes of a run by episode id; the note on the run itself has the id "".

    Raises: LedgerError if notes.json is damaged.
    """
    if not (run / _FILE).exists():
        return {}
    try:
        rows = RunFolder(run).read_json(_FILE)
        return {str(row["episode"]): visible(row["text"]) for row in rows}
    except (ValueError, TypeError, KeyError) as error:
        raise LedgerError(f"{run / _FILE} does not hold notes: {error}. Mend or remove this file.") from error


def write_note(run: Path, text: str, episode: str = "") -> str:
    """Replace the note on an episode, or on the run itself, and return it; an empty text removes it.

    Writes of several processes follow each other. Characters that hide or reorder text become visible ones.
    Raises: LedgerError if the text is too long, or if the folder cannot be written.
    """
    text = visible(text.replace("\r\n", "\n").strip())
    if len(text) > MAX_LENGTH:
        raise LedgerError(f"The note has {len(text):,} characters. Shorten it to {MAX_LENGTH:,}.")
    with _locked(run):
        notes = read_notes(run) | {episode: text}
        rows = [{"episode": name, "text": note} for name, note in notes.items() if note]
        RunFolder(run).write_json(_FILE, rows)
    return text


def why_not_writable(run: Path) -> str:
    """Return why no note can be written into a run folder, or "" if one can."""
    return "" if os.access(run, os.W_OK) else f"Notes cannot be written: the folder {run} is read-only."


@contextmanager
def _locked(run: Path) -> Iterator[None]:
    """Wait for other writers of notes; the lock of the folder itself belongs to the command that trains."""
    try:
        lock = os.open(run / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise LedgerError(f"Notes cannot be written into {run}: {error.strerror}.") from error
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
