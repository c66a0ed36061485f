"""One run, read repeatedly while it may still be written; unchanged files are not read twice."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentgym.errors import LedgerError
from agentgym.evaluation.report.contents import Contents, read
from agentgym.evaluation.report.credit_lines import read_credit
from agentgym.evaluation.report.episode_data import Link, episode_data, image_at, listed, run_of, siblings, token_data
from agentgym.evaluation.report.run_data import run_data, run_summary
from agentgym.evaluation.report.vocabulary import Vocabulary, tokenizer_file
from agentgym.storage.notes import read_notes
from agentgym.storage.reader import LedgerReader

LIVE_S = 30.0
"""A run that wrote something within this time is shown as running."""
MAX_ROWS = 500
"""The maximum number of rows per answer: the page asks for more when the user scrolls."""


class OpenedRun:
    """A run folder and the data read from it. Safe to share among threads.

    Args:
        path: the folder. `key`: its name in URLs.
    """

    def __init__(self, path: Path, key: str) -> None:
        self.path, self.key = path, key
        self._lock = threading.Lock()
        self._reader: LedgerReader | None = None
        self._file: tuple[int, int] | None = None  # device and inode of the open ledger
        self._contents: tuple[str, Contents] | None = None
        self._summary: tuple[Contents, dict[str, Any]] | None = None
        self._vocabulary: tuple[str, Vocabulary] | None = None

    def close(self) -> None:
        """Close the ledger. May be called twice."""
        if self._reader is not None:
            self._reader.close()

    def pulse(self) -> dict[str, Any]:
        """Return `version`, which changes with each write; `updated`, Unix seconds; `live`, whether that is recent."""
        stamps = [
            *self._stamps(["metrics.jsonl", "credit.jsonl", "recipe.toml", "evaluation", "state.json", "guard.json"])
        ]
        stamps += self._stamps(["ledger.sqlite", "ledger.sqlite-wal"])
        newest = max((stamp[1] for stamp in stamps), default=0) / 1e9
        version = hashlib.sha256(repr(stamps).encode()).hexdigest()[:16]
        return {"version": version, "updated": newest, "live": time.time() - newest < LIVE_S}

    def summary(self, pulse: Mapping[str, Any], deadline: float = math.inf) -> dict[str, Any]:
        """Return the run's entry in the list of runs, with its pulse.

        After `deadline`, on the monotonic clock, a run that was never read is not read, but marked as `unread`.
        """
        identity = {"key": self.key, "path": str(self.path), "note": self._note(), **pulse}
        if self._summary is None and time.monotonic() > deadline:
            return {"name": self.path.name, "unread": True, **identity}
        contents, reader = self.contents(), self.reader()
        if self._summary is None or self._summary[0] is not contents:
            data = run_summary(contents)
            data["same_tasks"] = [
                {name: evaluation[name] for name in ("label", "headline")} for evaluation in data["same_tasks"]
            ]
            del data["held_out"]  # as the rest of the evaluations, it is for the run's own page
            self._summary = (contents, data)
        unread = reader.summarise(0.02) if reader else 0
        return self._summary[1] | identity | {"episodes": reader.count() if reader else 0, "lacking": unread}

    def overview(self) -> dict[str, Any]:
        """Return all data except the episodes. This and the other answers below include the version of the files."""
        now = self.pulse()  # before reading, so that anything written meanwhile counts as new
        return run_data(self.contents()) | now | {"key": self.key, "path": str(self.path)}

    def episodes(
        self, where: Mapping[str, str], *, sort: str, descending: bool, offset: int, limit: int
    ) -> dict[str, Any]:
        """Return the rows of the chosen episodes, their number, and the values that each filter can have."""
        version, reader = self.pulse()["version"], self.reader()
        if reader is None:
            return {"rows": [], "total": 0, "all": 0, "lacking": 0, "facets": {}, "version": version}
        unread = reader.summarise()
        # The values come from the episodes of the chosen phase, run, task, tag and text.
        within = {name: value for name, value in where.items() if name in ("phase", "run", "task", "tag", "text")}
        facets = reader.facets(within) | {"phase": reader.phases()}
        return {
            "rows": listed(
                reader.select(where, sort=sort, descending=descending, offset=offset, limit=min(limit, MAX_ROWS))
            ),
            "total": reader.count(where),
            "all": reader.count(),
            "lacking": unread,
            "facets": facets,
            "version": version,
        }

    def episode(self, name: str, link: Link | None = None) -> dict[str, Any]:
        """Return one episode with its group. Raises: LedgerError if there is no such episode."""
        version, trajectory = self.pulse()["version"], self._ledger().load(name)
        group = self._ledger().select({"run": run_of(trajectory), "task": trajectory.task.id}, limit=64)
        credit = read_credit(self.path / "credit.jsonl", {name, *(row["id"] for row in group)})
        others = self._ledger().select({"task": trajectory.task.id}, sort="episode", limit=200)
        data = episode_data(trajectory, credit.get(name), link)
        return data | {"group": siblings(group, credit), "same_task": listed(others), "version": version}

    def check_has(self, name: str) -> None:
        """Check that the ledger holds an episode. Raises: LedgerError if it does not."""
        self._ledger().load(name.encode(errors="replace").decode())  # SQLite takes no lone surrogates

    def tokens(self, name: str) -> dict[str, Any]:
        """Return an episode's tokens in spans, and their texts. Raises: LedgerError if there is no such episode."""
        spans = token_data(self._ledger().load(name))
        return {"spans": spans, "pieces": self._words().of(i for span in spans for i in span["ids"])}

    def image(self, name: str, position: tuple[int, ...]) -> tuple[str, bytes] | None:
        """Return the media type and bytes of an image of an episode.

        Raises: LedgerError when there is no such episode.
        """
        return image_at(self._ledger().load(name), position)

    def contents(self) -> Contents:
        """Return the current contents of the files beside the ledger."""
        version = repr(
            self._stamps(
                ["recipe.toml", "metrics.jsonl", "state.json", "guard.json", "evaluation", "evaluation/*.json"]
            )
        )
        with self._lock:
            if self._contents is None or self._contents[0] != version:
                self._contents = (version, read(self.path, credit=False))
            return self._contents[1]

    def reader(self) -> LedgerReader | None:
        """Return the current ledger, reopened if it was replaced, or None if there is none yet."""
        path = self.path / "ledger.sqlite"
        with self._lock:
            try:
                status = path.stat()
            except OSError:
                return None
            if self._reader is None or self._file != (status.st_dev, status.st_ino):
                if self._reader is not None:
                    self._reader.close()
                self._reader, self._file = LedgerReader(path), (status.st_dev, status.st_ino)
            return self._reader

    def _ledger(self) -> LedgerReader:
        reader = self.reader()
        if reader is None:
            raise LedgerError(f"{self.path} holds no ledger.sqlite: this run kept no episodes.")
        return reader

    def _note(self) -> str:
        """Return the note on the run. A damaged file is told where the note is shown, and hides nothing else."""
        try:
            return read_notes(self.path).get("", "")
        except LedgerError:
            return ""

    def _words(self) -> Vocabulary:
        policy = self.contents().recipe_value("policy", "path")
        file = tokenizer_file(self.path, policy if isinstance(policy, str) else None)
        if file is None:
            return Vocabulary()
        version = repr((file, file.stat().st_mtime_ns))
        with self._lock:
            if self._vocabulary is None or self._vocabulary[0] != version:
                self._vocabulary = (version, Vocabulary.load(file))
            return self._vocabulary[1]

    def _stamps(self, names: list[str]) -> list[tuple[int, int, int]]:
        """Return size, modification time and inode of each file that is not empty."""
        stamps = []
        for name in names:
            for path in sorted(self.path.glob(name)) if "*" in name else [self.path / name]:
                try:
                    status = path.stat()
                except OSError:
                    continue
                if status.st_size or not path.is_file():  # skips the empty -wal file that a reader of the ledger leaves
                    stamps.append((status.st_size, status.st_mtime_ns, status.st_ino))
        return stamps
