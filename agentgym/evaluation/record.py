"""The record of one evaluation: its tasks, its agent and the outcome of every episode. Stored as JSON."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.errors import EvaluationError
from agentgym.evaluation.held_out_uses import held_out_uses
from agentgym.evaluation.outcomes import OutcomeStatistics, TaskOutcome
from agentgym.storage.digests import unsealed
from agentgym.task.definition import Task
from agentgym.task.task_set import TaskSet, canary_of
from agentgym.trajectory.record import Trajectory

if TYPE_CHECKING:
    from agentgym.storage.run_folder import RunFolder

FORMER_KEYS = {"samples": "group_size", "opened": "held_out_uses"}
"""Keys of records written before agentgym 0.2.0, mapped to the current names. Such records can still be read."""


@dataclass
class Evaluation(OutcomeStatistics):
    """One agent on one fixed list of tasks: what was played, and the outcomes with their statistics."""

    label: str
    """The name of the evaluation in the run folder, for example `held_out_after`."""
    task_set: str
    """The task set that was played."""
    split: str
    """The split that was played."""
    fingerprint: str
    """The fingerprint of the whole task set."""
    policy: str
    """The name of the agent."""
    group_size: int
    """How many episodes of each task were played."""
    seed: int
    """The seed of all randomness."""
    rows: list[TaskOutcome]
    """The outcomes, one row for each task."""
    manifest: str = ""
    """A hash of the tasks played, in order. Evaluations with equal manifests are comparable."""
    run: str = ""
    """The prefix of the trajectory ids in the ledger, `<run>/<task>#<index>`."""
    step: int | None = None
    """The training step of the weights; None outside training."""
    created: float = 0.0
    """When the evaluation began, in Unix seconds."""
    duration_s: float = 0.0
    """The wall time of the whole evaluation in seconds."""
    cpu_s: float = 0.0
    """The CPU seconds of this process and of its ended children."""
    version: str = ""
    """The version of agentgym."""
    sampling: dict[str, float] = field(default_factory=dict)
    """The temperature, `top_p` and `max_tokens` of a turn."""
    held_out_uses: int | None = None
    """How often any agent had played these held-out tasks on this machine before; None if not counted (another split,
    or a record from an old version)."""
    adapted: str = ""
    """A description of the tasks that the agent was adapted to without labels; empty if none. If they are held-out
    tasks, the evaluation says nothing about other tasks."""
    knowledge: str = ""
    """A description of the knowledge from earlier training episodes that the episodes were shown; empty if none."""
    weaker_limits: list[str] = field(default_factory=list)
    """The limits that the sandboxes of some episodes did not enforce."""
    search: dict[str, Any] = field(default_factory=dict)
    """The options of the search over turns that produced the episodes, and whether its value was an oracle's; empty
    without a search."""

    @property
    def canary(self) -> str:
        """The canary of the task set: see `agentgym.TaskSet.canary`."""
        return canary_of(self.task_set)

    def to_summary(self) -> dict[str, Any]:
        """Return the headline numbers as JSON-able data: success, pass@k and pass^k with intervals, failures, usage."""
        curves = {}
        if self.outcomes():
            curves = {"pass_at": self.pass_curve(), "pass_hat": self.pass_curve(all_of_them=True)}
        return {
            "success": asdict(self.success()) if curves else None,
            "tasks": len(self.rows),
            "failed": self.failed,
            **{name: {str(k): asdict(estimate) for k, estimate in curve.items()} for name, curve in curves.items()},
            **(
                {"attempts": {name: asdict(e) for name, e in attempts.items()}} if (attempts := self.attempts()) else {}
            ),
            **({"chosen": chosen} if (chosen := self._chosen()) else {}),
            "failures": dict(self.failures()),
            "usage": self.usage(),
            "duration_s": self.duration_s,
            "held_out_uses": self.held_out_uses,
            **({"adapted": self.adapted} if self.adapted else {}),
            **({"knowledge": self.knowledge} if self.knowledge else {}),
            **({"weaker_limits": self.weaker_limits} if self.weaker_limits else {}),
        }

    def _chosen(self) -> dict[str, dict[str, Any]]:
        names = self.rows[0].choices if self.rows else ()
        return {name: {str(k): asdict(estimate) for k, estimate in self.chosen(name).items()} for name in names}

    def to_json(self) -> dict[str, Any]:
        """Return plain data from which `from_json` makes an equal record."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any, where: str = "evaluation") -> Evaluation:
        """Read what `to_json` wrote in this version or an earlier one. Ignore keys of newer versions.

        Raises: EvaluationError that begins with `where` and names the missing key.
        """
        try:
            known = {f.name for f in fields(cls)} - {"rows"}
            row_keys = {f.name for f in fields(TaskOutcome)}
            rows = [TaskOutcome(**{k: v for k, v in row.items() if k in row_keys}) for row in data["rows"]]
            current = {FORMER_KEYS.get(key, key): value for key, value in data.items()}
            return cls(rows=rows, **{key: value for key, value in current.items() if key in known})
        except (KeyError, TypeError, AttributeError) as error:
            raise EvaluationError(
                f"{where} is not an evaluation record ({type(error).__name__} {error}). Give a JSON object that "
                "Evaluation.to_json wrote, with label, task_set, split, fingerprint, policy, group_size, seed, rows."
            ) from error

    @staticmethod
    def count_held_out_uses(task_set: TaskSet) -> int:
        """Return how often the held-out tasks of this version of a task set were evaluated on this machine."""
        return len(held_out_uses(task_set.name, task_set.fingerprint()))

    @classmethod
    def load(cls, path: str | Path) -> Evaluation:
        """Read a record from a file. Raises: EvaluationError naming the file."""
        path = Path(path)
        try:
            data = unsealed(path, json.loads(path.read_text(encoding="utf-8-sig")))
        except (OSError, ValueError) as error:
            raise EvaluationError(
                f"Cannot read the evaluation {path}: {getattr(error, 'strerror', None) or error}. Give a file that "
                "`agentgym eval` wrote by --json, or RUN/evaluation/LABEL.json."
            ) from error
        return cls.from_json(data, str(path))

    @classmethod
    def of_run(cls, folder: RunFolder, label: str = "") -> Evaluation:
        """Read a run's evaluation by its label, or the newest one. Raises: EvaluationError listing the labels."""
        labels = folder.evaluations()
        if not labels or (label and label not in labels):
            raise EvaluationError(
                f"{folder.path} has no evaluation {label!r}. Its evaluations are: {', '.join(labels) or 'none'}."
            )
        loaded = [cls.load(folder.path / "evaluation" / f"{name}.json") for name in ([label] if label else labels)]
        return max(loaded, key=lambda evaluation: evaluation.created)


def weaker_limits(trajectories: Iterable[Trajectory]) -> list[str]:
    """Return the limits that the sandboxes of some episode did not enforce."""
    return [*dict.fromkeys(name for trajectory in trajectories for name in trajectory.provenance.weaker_limits)]


def manifest_of(tasks: Sequence[Task]) -> str:
    """Return a hash of a list of tasks in order, truths included."""
    digest = hashlib.sha256()
    for task in tasks:
        digest.update(_as_bytes(task))
        digest.update(b"\n")
    return digest.hexdigest()[:16]


def hash_of(task: Task) -> str:
    """Return a hash of one task, truth included: evaluations are compared only on tasks with equal hashes."""
    return hashlib.sha256(_as_bytes(task)).hexdigest()[:16]


def select_episodes(tasks: Iterable[Task], episodes: Iterable[Trajectory]) -> Iterator[Trajectory]:
    """Yield the episodes that played one of these tasks unchanged: an equal id alone is not enough."""
    hashes = {task.id: hash_of(task) for task in tasks}
    return (episode for episode in episodes if hashes.get(episode.task.id) == hash_of(episode.task))


def _as_bytes(task: Task) -> bytes:
    return json.dumps(task.to_json(), sort_keys=True, ensure_ascii=False, default=str).encode()
