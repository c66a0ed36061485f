"""The folder of one run: its files, and how they are written so that a crash leaves them readable."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agentgym.errors import LedgerError
from agentgym.storage.digests import read_lines, sealed, unsealed
from agentgym.storage.reader import LedgerReader

HOLDS_A_RUN = (
    "{} already holds a run. Continue it with --resume, train it for more steps with --extend, give another folder by "
    "--out, or remove it."
)
"""The error message if a new run would begin in another run's folder."""
HOLDS_EPISODES = (
    "{} holds episodes of an evaluation or a rollout, which a run would mix with its own. Give another folder by "
    "--out, or remove it."
)
"""The error message if a run would begin in a folder that `agentgym eval` or `agentgym rollout` wrote."""
_SIGNS = ("recipe.toml", "ledger.sqlite", "metrics.jsonl", "state.json", "evaluation", "checkpoints")


class RunFolder:
    """Names and writes the files of a run. Nothing is created on disk before the first write.

    Attributes:
        path: the folder.
        name: the last part of `path`.
        recipe, ledger, metrics_file, checkpoints, report, state, spending: paths inside the folder.
        listeners: called with the step, the phase and the metrics of each logged row.
    Raises: LedgerError if the path is a file, or a non-empty folder without any file of a run.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = self.path.name
        self.recipe = self.path / "recipe.toml"
        self.ledger = self.path / "ledger.sqlite"
        self.metrics_file = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"
        self.report = self.path / "report.html"
        self.listeners: list[Callable[[int, str, Mapping[str, float]], None]] = []
        self.state = self.path / "state.json"
        self.spending = self.path / "spending.json"
        self._check_is_free_or_run()

    def why_not_new(self) -> str | None:
        """Return the error message if no new run may begin here, else None."""
        if self.recipe.is_file():
            return HOLDS_A_RUN.format(self.path)
        return HOLDS_EPISODES.format(self.path) if self.ledger.exists() else None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder, which must exist, for one command. The lock ends with the process, even if that is killed.

        Raises: LedgerError if another process holds it.
        """
        folder = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise LedgerError(
                    f"Another command is using {self.path} at the moment. Wait until it has ended, or choose another "
                    "folder."
                ) from error
            except OSError:
                pass  # a file system without locks
            yield
        finally:
            os.close(folder)

    def _check_is_free_or_run(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise LedgerError(f"{self.path} is a file, not a run folder. Name a folder, for example runs/quickstart.")
        if self.path.is_dir() and not self.is_run(self.path) and any(self.path.iterdir()):
            entries = ", ".join(sorted(item.name for item in self.path.iterdir())[:5])
            raise LedgerError(
                f"{self.path} is not a run folder: it contains {entries}, but none of {', '.join(_SIGNS)}. Name a "
                "run folder, or an empty or new one to write to."
            )

    @classmethod
    def existing(cls, path: str | Path) -> RunFolder:
        """Return the folder of an existing run. Raises: LedgerError if there is no run at the path."""
        folder = cls(path)
        if not cls.is_run(folder.path):
            here = folder.path.parent
            runs = sorted(p.name for p in here.iterdir() if p.is_dir()) if here.is_dir() else []
            if folder.path.suffix == ".json" and not folder.path.exists():
                records = sorted(file.name for file in here.glob("*.json"))
                raise LedgerError(f"There is no file {folder.path}. In {here}: {', '.join(records[:10]) or 'none'}.")
            raise LedgerError(f"There is no run at {folder.path}. Runs in {here}: {', '.join(runs[:10]) or 'none'}.")
        return folder

    def reader(self) -> LedgerReader:
        """Open the ledger for reading alone, also during a run. Raises: LedgerError if it is not a ledger."""
        return LedgerReader(self.ledger)

    def existing_ledger(self) -> Path:
        """Return the path of the ledger. Raises: LedgerError if the run kept no episodes."""
        if not self.ledger.is_file():
            raise LedgerError(f"{self.path} holds no ledger.sqlite: this run kept no episodes.")
        return self.ledger

    @staticmethod
    def is_run(path: Path) -> bool:
        """Return whether a run has written into a folder."""
        return any((path / sign).exists() for sign in _SIGNS)

    def phase(self, usual: str) -> str:
        """Return the name under which a phase is logged, and under which its episodes are recorded."""
        return usual

    def create(self) -> RunFolder:
        """Create the folder if it is missing. Raises: LedgerError if it cannot be created or written."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LedgerError(f"Cannot make the run folder {self.path}: {error.strerror}. Name another one.") from error
        if not os.access(self.path, os.W_OK):
            raise LedgerError(f"Cannot write into the run folder {self.path}: Permission denied. Name another one.")
        return self

    def log(self, step: int, phase: str, **metrics: float) -> None:
        """Append one line to metrics.jsonl and flush it. A half-written last line is ended first."""
        self.create()
        row = {"time": time.time(), "step": step, "phase": phase, **metrics}
        line = _sealed_line(json.loads(json.dumps(row, default=float))).encode()
        with self.metrics_file.open("ab") as file:
            if file.tell() and not _ends_with_newline(self.metrics_file):
                line = b"\n" + line
            file.write(line)  # one write, and closing flushes it
        for listener in self.listeners:
            listener(step, phase, metrics)

    def metrics(self, phase: str | None = None) -> list[dict[str, Any]]:
        """Return the logged rows in order, of one phase or of all; a truncated or damaged line is skipped."""
        if not self.metrics_file.exists():
            return []
        rows, _ = read_lines(self.metrics_file.read_text(encoding="utf-8", errors="replace"))
        return [row for row in rows if phase is None or row.get("phase") == phase]

    def forget(self, phases: Collection[str], after_step: int) -> None:
        """Drop the metrics of these phases after a step: a run that resumes from that step logs them again."""
        rows = [r for r in self.metrics() if r.get("phase") not in phases or r.get("step", 0) <= after_step]
        partial = self.metrics_file.with_suffix(".partial")
        partial.write_text("".join(map(_sealed_line, rows)), encoding="utf-8")
        partial.replace(self.metrics_file)

    def write_json(self, name: str, data: Any) -> Path:
        """Write the file `name` (for example `evaluation/before.json`) atomically. A JSON object also gets its digest.

        Raises: ValueError for a name outside the folder or data that is not JSON.
        """
        path = self._inside(name)
        text = json.dumps(sealed(data) if isinstance(data, dict) else data, indent=1, ensure_ascii=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        try:
            with open(partial, "w", encoding="utf-8", errors="surrogatepass", opener=_open_no_link) as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise LedgerError(f"{path} cannot be written: {error.strerror}. Its old content is unchanged.") from error
        return path

    def read_json(self, name: str) -> Any:
        """Return the data that `write_json` wrote. Raises: LedgerError if the file is missing, damaged or not JSON."""
        path = self._inside(name)
        try:
            return unsealed(path, json.loads(path.read_text(encoding="utf-8", errors="surrogatepass")))
        except FileNotFoundError as error:
            raise LedgerError(f"{path} does not exist, because this run has not written it.") from error
        except ValueError as error:
            raise LedgerError(f"{path} is not valid JSON: {error}.") from error

    def evaluations(self) -> list[str]:
        """Return the labels of the written evaluations, sorted."""
        return sorted(path.stem for path in (self.path / "evaluation").glob("*.json"))

    def _inside(self, name: str) -> Path:
        path = self.path / name
        if not path.resolve().is_relative_to(self.path.resolve()) or not name:
            raise ValueError(f"{name!r} is not the name of a file inside the run folder {self.path}.")
        return path


class StageFolder(RunFolder):
    """The folder of one of a run's stages: stages/<name>. Its metrics go into the run's metrics file.

    Its phases are named after the stage: `train` becomes `<name>`, and `validation` becomes `<name>_validation`.

    Args:
        run: the folder of the run.
        name: the name of the stage.
    """

    def __init__(self, run: RunFolder, name: str) -> None:
        super().__init__(run.path / "stages" / name)
        self.ledger, self.metrics_file, self.report = run.ledger, run.metrics_file, run.report
        self.listeners = run.listeners

    def _check_is_free_or_run(self) -> None:
        """Do nothing: the run's own folder is already checked."""

    def phase(self, usual: str) -> str:
        """Return the stage's own name of a phase."""
        return f"{self.name}_validation" if usual.endswith("validation") else self.name

    def log(self, step: int, phase: str, **metrics: float) -> None:
        """Log metrics of a phase under the stage's own name of the phase."""
        super().log(step, self.phase(phase), **metrics)

    def metrics(self, phase: str | None = None) -> list[dict[str, Any]]:
        """Return the metrics of a phase; without a phase, the metrics of the whole run."""
        return super().metrics(phase and self.phase(phase))

    def forget(self, phases: Collection[str], after_step: int) -> None:
        """Drop the metrics of phases, given by their usual names, after a step."""
        super().forget([self.phase(phase) for phase in phases], after_step)


_OF_CHECKPOINTS = ("config.json", "adapter_config.json")


def checkpoint_in(path: Path) -> Path | None:
    """Return the folder itself if it is a checkpoint; for a run, its final checkpoint or else its warm start.

    Returns: None for a folder that is neither a checkpoint nor a run, or for a run without such a checkpoint.
    """
    checkpoints = (path, path / "checkpoints" / "final", path / "checkpoints" / "warm_start")
    return next((folder for folder in checkpoints if any((folder / name).is_file() for name in _OF_CHECKPOINTS)), None)


def _sealed_line(row: dict[str, Any]) -> str:
    """Return a row of metrics as a line with its digest."""
    return json.dumps(sealed(row)) + "\n"


def _open_no_link(path: str, flags: int) -> int:
    """Open a file as `open` does, but follow no symbolic link, which a copied run folder may contain."""
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _ends_with_newline(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"
