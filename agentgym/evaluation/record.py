"""The record of one evaluation: which tasks, which agent, what came out of every episode. JSON on disk."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from agentgym.errors import EvaluationError
from agentgym.evaluation.statistics import Estimate, pass_at_k, pass_hat_k, success_rate
from agentgym.sandbox.metering import together
from agentgym.task import Task, task_to_json


@dataclass(slots=True)
class Row:
    """What came out of one task. Every list has one entry a sample, in order of the samples.

    Attributes:
        task, tags: of the task.
        success: the `success` component, None where the episode failed: not a zero, but no observation.
        turns, stop: turns played, and the stop reason.
        calls: how many calls. `calls_ok`: how many of them ran and came back without an error.
        reward: weighted outcome and turn rewards together, in reward units.
        tokens: tokens the agent wrote, 0 where the policy counts none. `duration_s`: wall time.
        failures: what went wrong, as counts by kind; see agentgym.evaluation.failures.
        usage: what the episode took of sandboxes, tools and API, by name as in `Trajectory.usage`.
    """

    task: str
    tags: list[str] = field(default_factory=list)
    success: list[float | None] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    stop: list[str] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    calls_ok: list[int] = field(default_factory=list)
    reward: list[float] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    duration_s: list[float] = field(default_factory=list)
    failures: list[dict[str, int]] = field(default_factory=list)
    usage: list[dict[str, float]] = field(default_factory=list)

    @property
    def observed(self) -> list[float]:
        """The samples that count: those whose infrastructure held."""
        return [value for value in self.success if value is not None]


@dataclass(slots=True)
class Evaluation:
    """One agent on one fixed list of tasks.

    Attributes:
        label: its name in the run folder, for example `held_out_after`.
        task_set, split: what was played. `fingerprint`: of the whole task set.
        manifest: hash of exactly the tasks that were played, in order: equal means comparable.
        policy: name of the agent. `samples`: episodes per task. `seed`: all randomness follows from it.
        rows: one per task.
        run: prefix of the trajectory ids in the ledger, `<run>/<task>#<sample>`.
        step: training step of the weights, None outside training.
        created: Unix seconds. `duration_s`: wall time of the whole evaluation.
        version: of agentgym. `sampling`: temperature, top_p and max_tokens.
    """

    label: str
    task_set: str
    split: str
    fingerprint: str
    policy: str
    samples: int
    seed: int
    rows: list[Row]
    manifest: str = ""
    run: str = ""
    step: int | None = None
    created: float = 0.0
    duration_s: float = 0.0
    version: str = ""
    sampling: dict[str, float] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        """Episodes whose infrastructure failed: excluded from every number, and counted here."""
        return sum(value is None for row in self.rows for value in row.success)

    @property
    def tags(self) -> list[str]:
        """Every tag of the tasks played, most frequent first."""
        return [tag for tag, _ in Counter(tag for row in self.rows for tag in row.tags).most_common()]

    def outcomes(self, tag: str | None = None) -> list[list[float]]:
        """Observed samples by task, tasks without any left out; of one tag if given."""
        return [row.observed for row in self.select(tag) if row.observed]

    def select(self, tag: str | None = None) -> list[Row]:
        """The rows that carry a tag, or all."""
        return [row for row in self.rows if tag is None or tag in row.tags]

    def success(self, tag: str | None = None) -> Estimate:
        """Mean success over tasks with its 95 % interval."""
        return success_rate(self.outcomes(tag))

    def pass_at(self, k: int, tag: str | None = None) -> float:
        """Mean over tasks of pass@k. Raises: EvaluationError where a task has fewer than k observed samples."""
        return _mean(pass_at_k(len(o), _solved(o), k) for o in self.outcomes(tag))

    def pass_hat(self, k: int, tag: str | None = None) -> float:
        """Mean over tasks of pass^k. Raises: EvaluationError where a task has fewer than k observed samples."""
        return _mean(pass_hat_k(len(o), _solved(o), k) for o in self.outcomes(tag))

    def failures(self) -> Counter[str]:
        """Counts of everything that went wrong, over all episodes."""
        total: Counter[str] = Counter()
        for row in self.rows:
            for counts in row.failures:
                total.update(counts)
        return total

    def usage(self) -> dict[str, float]:
        """What all episodes took together, failed ones too, by name as in `Trajectory.usage`; of peaks the highest."""
        return together([used for row in self.rows for used in row.usage])

    def execution_rate(self) -> float:
        """Calls that ran and came back without an error, as a share of all calls; NaN without any call."""
        calls = sum(sum(row.calls) for row in self.rows)
        return sum(sum(row.calls_ok) for row in self.rows) / calls if calls else float("nan")

    def mean_turns(self) -> float:
        """Turns per episode that did not fail; NaN without any."""
        return _mean(n for row in self.rows for n, s in zip(row.turns, row.success, strict=True) if s is not None)

    def summary(self) -> str:
        """One line for a terminal or a log."""
        line = f"{self.label}: {self.success().percent()} of {len(self.rows)} tasks solved ({self.policy})"
        return line + (f", {self.failed} episodes failed and are left out" if self.failed else "")

    def compared_to(self, before: Evaluation, *, first: str | None = None) -> str:
        """What was gained over `before`, for a terminal: all tasks, then each tag. Raises: EvaluationError.

        `first` names a tag to begin with.
        """
        from agentgym.evaluation.comparison import compare

        common = [tag for tag in self.tags if 1 < len(self.select(tag)) < len(self.rows) and tag != first][:5]
        tags = [first, None, *common] if first in self.tags else [None, *common]
        lines = [f"Success on {len(self.rows)} {self.split} tasks of {self.task_set}"]
        width = max(len(tag or "all tasks") for tag in tags)
        for tag in tags:
            gain = compare(before, self, tag=tag)
            change = gain.difference
            lines.append(
                f"  {tag or 'all tasks':<{width}}  {before.success(tag).value:4.0%} -> {self.success(tag).value:4.0%}"
                f"   gain {100 * change.value:+.0f} points, 95 % interval {100 * change.low:+.0f} to "
                f"{100 * change.high:+.0f}, sign test p = {gain.p_value:.1g}"
            )
        if failed := before.failed + self.failed:
            lines.append(f"  {failed} episodes failed with their infrastructure and are left out")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Plain data; `from_json` reads it back equal."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Any, where: str = "evaluation") -> Evaluation:
        """Read what `to_json` wrote; keys of a newer version are ignored.

        Raises: EvaluationError that begins with `where` and names what is missing.
        """
        try:
            known = {f.name for f in fields(cls)} - {"rows"}
            row_keys = {f.name for f in fields(Row)}
            rows = [Row(**{k: v for k, v in row.items() if k in row_keys}) for row in data["rows"]]
            return cls(rows=rows, **{k: v for k, v in data.items() if k in known})
        except (KeyError, TypeError, AttributeError) as error:
            raise EvaluationError(
                f"{where} is no evaluation record: {type(error).__name__} {error}. Expected the JSON object that "
                "Evaluation.to_json writes, with label, task_set, split, fingerprint, policy, samples, seed, rows."
            ) from error

    @classmethod
    def load(cls, path: str | Path) -> Evaluation:
        """Read a record from a file. Raises: EvaluationError naming the file."""
        path = Path(path)
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise EvaluationError(f"Cannot read the evaluation {path}: {error}.") from error
        return cls.from_json(data, str(path))


def manifest_of(tasks: Sequence[Task]) -> str:
    """Hash of a list of tasks in order, truth included."""
    digest = hashlib.sha256()
    for task in tasks:
        digest.update(json.dumps(task_to_json(task), sort_keys=True, ensure_ascii=False, default=str).encode())
        digest.update(b"\n")
    return digest.hexdigest()[:16]


def _solved(samples: Sequence[float]) -> int:
    return sum(value >= 1.0 for value in samples)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else float("nan")
