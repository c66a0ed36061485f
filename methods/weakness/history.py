"""Find the kinds of training tasks that a run fails at, from the successes in its ledger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from agentgym import EvaluationError, Task, Trajectory
from agentgym.evaluation import success_rate
from agentgym.storage import RunFolder

MAX_DIFFICULTIES = 32
"""With more distinct difficulties than this, difficulties are not kinds: they may be measured quantities."""


@dataclass(slots=True)
class TaskHistory:
    """The results of one task by visit. A visit is the task's episodes in one batch of the run.

    Attributes:
        visits: by the label of each batch, in order, the success of its episodes, 0 to 1.
    """

    task: Task
    visits: dict[str, list[float]] = field(default_factory=dict)

    @property
    def successes(self) -> list[float]:
        """The success of every episode."""
        return [success for visit in self.visits.values() for success in visit]

    def is_weak(self, below: float = 0.5) -> bool:
        """Return whether every visit's mean success is under `below`, with no rising trend over the visits.

        Source: SwS, Liang et al. 2025, arXiv:2506.08989: failure-prone problems. Written from descriptions, not code.
        """
        means = [float(np.mean(visit)) for visit in self.visits.values()]
        return max(means) < below and _slope(means) <= 0


@dataclass(frozen=True, slots=True)
class WeakKind:
    """Tasks that share a tag, a difficulty or an environment.

    Attributes:
        name: the name of the kind; "all" for all tasks together.
        tasks: number of tasks played. weak: number of these tasks that are weak, see TaskHistory.
        success, low, high: the success and its interval; episodes are clustered by task.
        change: the change in success from the first batch that played the kind to the last, by a straight line
            fitted to the batch means; 0 with one batch.
    """

    name: str
    tasks: int
    weak: int
    episodes: int
    success: float
    low: float
    high: float
    change: float

    def to_json(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        return {
            "kind": self.name,
            "tasks": self.tasks,
            "weak": self.weak,
            "episodes": self.episodes,
            "success": self.success,
            "low": self.low,
            "high": self.high,
            "change": self.change,
        }


def histories_of_run(folder: RunFolder, label: str = "") -> list[TaskHistory]:
    """Return the history of every training task that a run has played, also while it runs.

    Skip episodes of other splits, episodes with help, and failed or unjudged episodes.

    Args:
        label: only episodes whose id begins with this label.
    Raises: EvaluationError if no episode is left; LedgerError.
    """
    with closing(folder.reader()) as reader:
        recorded = histories(reader.load(name) for name in reader.finished(label))
    if not recorded:
        which = f" whose id begins with {label!r}" if label else ""
        raise EvaluationError(
            f"{folder.ledger} has no judged episode of a training task{which}, so weak kinds of tasks cannot be found. "
            "Play training tasks first, by training or by `agentgym rollout --split train`."
        )
    return recorded


def histories(episodes: Iterable[Trajectory]) -> list[TaskHistory]:
    """Return the `histories_of_run` of given episodes. An episode's batch is the part of its id before the task."""
    by_task: dict[str, TaskHistory] = {}
    for episode in sorted(episodes, key=lambda episode: episode.id):
        task = episode.task
        if task.split != "train" or task.is_of_one_step or not episode.valid or episode.success is None:
            continue
        if episode.provenance.assistance is None:
            batch = episode.id.removesuffix(f"/{task.id}#{episode.sample}")
            by_task.setdefault(task.id, TaskHistory(task)).visits.setdefault(batch, []).append(episode.success)
    return list(by_task.values())


def weak_kinds(tasks: Sequence[TaskHistory], *, below: float = 0.5, at_least: int = 5) -> list[WeakKind]:
    """Return all tasks as one kind, then the single kinds, the least successful first.

    Args:
        below: see TaskHistory.is_weak.
        at_least: omit kinds with fewer tasks. Kinds that all tasks share are omitted too.
    """
    members: dict[str, list[TaskHistory]] = {}
    for history in tasks:
        for name in _kinds_of(history.task, len({h.task.difficulty for h in tasks})):
            members.setdefault(name, []).append(history)
    own = [_kind(name, m, below) for name, m in members.items() if at_least <= len(m) < len(tasks)]
    return [_kind("all", tasks, below), *sorted(own, key=lambda kind: (kind.success, -kind.tasks, kind.name))]


def _kinds_of(task: Task, difficulties: int) -> set[str]:
    names = {*task.tags, task.environment}
    return names | ({f"difficulty {task.difficulty:g}"} if difficulties <= MAX_DIFFICULTIES else set())


def _kind(name: str, members: Sequence[TaskHistory], below: float) -> WeakKind:
    batches: dict[str, list[float]] = {}
    for history in members:
        for batch, successes in history.visits.items():
            batches.setdefault(batch, []).extend(successes)
    means = [float(np.mean(batches[batch])) for batch in sorted(batches)]
    success = success_rate([history.successes for history in members])
    return WeakKind(
        name,
        len(members),
        sum(history.is_weak(below) for history in members),
        sum(map(len, batches.values())),
        success.value,
        success.low,
        success.high,
        _slope(means) * (len(means) - 1),
    )


def _slope(values: Sequence[float]) -> float:
    """Return the least-squares slope of equally spaced values; 0 for a single value."""
    return float(np.polyfit(range(len(values)), values, 1)[0]) if len(values) > 1 else 0.0
