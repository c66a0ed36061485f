"""Episodes that ended on a node while their driver was away, stored on the node's disk until a driver fetches them."""

from __future__ import annotations

import hashlib
import logging
import os
import pickle
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentgym.errors import ClusterError
from agentgym.trajectory.record import Trajectory

MAX_BYTES = 2**30
"""The most bytes stored on a node, for all runs together. The oldest episodes are deleted, and played again later."""
KEEP_S = 7 * 24 * 3600.0
"""The age in seconds at which episodes that no driver has fetched are removed."""
_LOGGER = logging.getLogger(__name__)


def folder_of_user() -> Path:
    """Return the folder of this user's episodes on this host. Raises: ClusterError if others own or can access it."""
    folder = Path(tempfile.gettempdir()) / f"agentgym-episodes-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    if folder.is_symlink() or state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise ClusterError(
            f"{folder} does not belong to this user alone. Remove it, or set TMPDIR to a folder of your own."
        )
    return folder


class EpisodeSpool:
    """The stored ended episodes of one ledger on this host.

    Files are unpickled, so only this user may have write access to the folder.

    Args:
        folder: the folder for all ledgers. `ledger`: the identity of the episodes' ledger.
    """

    def __init__(self, folder: Path, ledger: str, *, most_bytes: int = MAX_BYTES) -> None:
        self._root, self._most_bytes = folder, most_bytes
        self._folder = folder / _digest(ledger)

    def ids(self) -> set[str]:
        """Return the ids of the stored episodes. Remove files that are too old."""
        episodes = set()
        for file in self._root.glob("*/*"):
            with suppress(OSError):
                if time.time() - file.stat().st_mtime > KEEP_S:
                    file.unlink()
                elif file.parent == self._folder and file.suffix == ".id":
                    episodes.add(file.read_text(encoding="utf-8"))
        return episodes

    def write(self, trajectory: Trajectory, checkpoints: dict[Any, Any]) -> bool:
        """Store an episode. Returns: False if the disk or the allowance is full, or the episode cannot be pickled."""
        file = self._file(trajectory.id)
        try:
            data = pickle.dumps((trajectory, checkpoints), protocol=pickle.HIGHEST_PROTOCOL)
            self._make_room(len(data))
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            unfinished = file.with_suffix(".new")
            unfinished.write_bytes(data)
            unfinished.rename(file)
            file.with_suffix(".id").write_text(trajectory.id, encoding="utf-8")
        except (OSError, pickle.PicklingError, TypeError, AttributeError) as error:
            _LOGGER.warning("The finished episode %s cannot be kept for its driver: %s", trajectory.id, error)
            self.remove(trajectory.id)
            return False
        return True

    def read(self, episode: str) -> tuple[Trajectory, dict[Any, Any]] | None:
        """Return a stored episode; None if it is missing or damaged."""
        try:
            trajectory, checkpoints = pickle.loads(self._file(episode).read_bytes())
        except Exception as error:  # noqa: BLE001  a damaged pickle may raise anything; the episode is played again
            if not isinstance(error, FileNotFoundError):
                _LOGGER.warning("The stored episode %s cannot be read: %s", episode, error)
            return None
        return (trajectory, checkpoints) if trajectory.id == episode else None

    def remove(self, episode: str) -> None:
        """Delete an episode, if it is stored."""
        file = self._file(episode)
        for path in (file, file.with_suffix(".id"), file.with_suffix(".new")):
            with suppress(OSError):
                path.unlink()

    def _make_room(self, n_bytes: int) -> None:
        """Remove the oldest episodes until `n_bytes` fit. Raises: OSError if they can never fit."""
        if n_bytes > self._most_bytes:
            raise OSError(f"the episode has {n_bytes} bytes, but at most {self._most_bytes} are allowed")
        sizes = {file: file.stat() for file in self._root.glob("*/*")}
        total = sum(state.st_size for state in sizes.values())
        for file, state in sorted(sizes.items(), key=lambda item: item[1].st_mtime):
            if total + n_bytes <= self._most_bytes:
                return
            file.unlink(missing_ok=True)
            total -= state.st_size

    def _file(self, episode: str) -> Path:
        return self._folder / f"{_digest(episode)}.episode"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
