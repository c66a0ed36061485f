"""Episodes that have ended on a node while their driver was away, on the node's disk until a driver takes them."""

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
from agentgym.trajectory import Trajectory

MAX_BYTES = 2**30
"""No more than this is kept on a node, of all runs together: the oldest make room. They are played again."""
KEEP_S = 7 * 24 * 3600.0
"""What nobody has taken for so long is removed."""
_LOGGER = logging.getLogger(__name__)


def folder_of_user() -> Path:
    """Where the episodes of this user are kept on this host. Raises: ClusterError if another user made it."""
    folder = Path(tempfile.gettempdir()) / f"agentgym-episodes-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    state = folder.lstat()
    if folder.is_symlink() or state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise ClusterError(f"{folder} is not this user's alone. Remove it, or set TMPDIR to a folder of your own.")
    return folder


class EpisodeSpool:
    """The ended episodes of one ledger that are on this host.

    Files are unpickled, so the folder must be one that only this user writes.

    Args:
        folder: for all ledgers. `ledger`: the identity of the one whose episodes these are.
    """

    def __init__(self, folder: Path, ledger: str, *, most_bytes: int = MAX_BYTES) -> None:
        self._root, self._most_bytes = folder, most_bytes
        self._folder = folder / _digest(ledger)

    def ids(self) -> set[str]:
        """Of the episodes that are kept. What has been here for too long is removed."""
        episodes = set()
        for file in self._root.glob("*/*"):
            with suppress(OSError):
                if time.time() - file.stat().st_mtime > KEEP_S:
                    file.unlink()
                elif file.parent == self._folder and file.suffix == ".id":
                    episodes.add(file.read_text(encoding="utf-8"))
        return episodes

    def write(self, trajectory: Trajectory, checkpoints: dict[Any, Any]) -> bool:
        """Keep an episode. Returns: whether it is kept; it is not where the disk or the allowance is full."""
        file = self._file(trajectory.id)
        try:
            data = pickle.dumps((trajectory, checkpoints), protocol=pickle.HIGHEST_PROTOCOL)
            self._make_room(len(data))
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            unfinished = file.with_suffix(".new")
            unfinished.write_bytes(data)
            unfinished.rename(file)
            file.with_suffix(".id").write_text(trajectory.id, encoding="utf-8")
        except (OSError, pickle.PicklingError, TypeError, AttributeError) as error:  # or what is in it cannot be stored
            _LOGGER.warning("%s has ended, and cannot be kept for its driver: %s", trajectory.id, error)
            self.remove(trajectory.id)
            return False
        return True

    def read(self, episode: str) -> tuple[Trajectory, dict[Any, Any]] | None:
        """Return an episode that is kept; None if it is not, or was damaged."""
        try:
            trajectory, checkpoints = pickle.loads(self._file(episode).read_bytes())
        except Exception as error:  # noqa: BLE001  a damaged pickle may raise anything; the episode is played again
            if not isinstance(error, FileNotFoundError):
                _LOGGER.warning("%s was kept, and cannot be read: %s", episode, error)
            return None
        return (trajectory, checkpoints) if trajectory.id == episode else None

    def remove(self, episode: str) -> None:
        """Forget an episode, if it is kept."""
        file = self._file(episode)
        for path in (file, file.with_suffix(".id"), file.with_suffix(".new")):
            with suppress(OSError):
                path.unlink()

    def _make_room(self, n_bytes: int) -> None:
        """Remove the oldest episodes until so many bytes fit. Raises: OSError if they are too many."""
        if n_bytes > self._most_bytes:
            raise OSError(f"it has {n_bytes} bytes, and {self._most_bytes} are allowed")
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
