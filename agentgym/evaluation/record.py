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
from agentgym.evaluation.statistics import (
    Estimate,
    Outcomes,
    pass_at_k,
    pass_curve,
    pass_hat_k,
    solved_within,
    success_rate,
)
from agentgym.sandbox import combine_usage
from agentgym.task import Task, task_to_json


@dataclass(slots=True)
class Row:
    """What came out of one task. Every list has one entry a sample, in order of the samples.

    Attributes:
        task, tags: of the task. `hash`: of all of it, truth included.
        success: the `success` component, None where the episode failed: not a zero, but no observation.
        turns, stop: turns played, and the stop reason.
        calls: how many calls. `calls_ok`: how many of them ran and came back without an error.
        reward: weighted outcome and turn rewards together, in reward units.
        tokens: tokens the agent wrote, 0 where the policy counts none. `duration_s`: wall time.
        failures: what went wrong, as counts by kind; see agentgym.evaluation.failures.
        usage: what the episode took of sandboxes, tools and API, by name as in `Trajectory.usage`.
        outcome: all outcome components by name, unweighted; empty where the episode failed.
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
    outcome: list[dict[str, float]] = field(default_factory=list)
    hash: str = ""

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
        opened: how often these held-out tasks had been played on this machine before, by any agent; None where nobody
            counts (another split, or a record that is older than the counting).
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
    opened: int | None = None

    @property
    def failed(self) -> int:
        """Episodes whose infrastructure failed: excluded from every number, and counted here."""
        return sum(value is None for row in self.rows for value in row.success)

    @property
    def tags(self) -> list[str]:
        """Every tag of the tasks played, most frequent first."""
        return [tag for tag, _ in Counter(tag for row in self.rows for tag in row.tags).most_common()]

    def outcomes(self, tag: str | None = None, *, also: str | None = None) -> list[list[float]]:
        """Observed samples by task, tasks without any left out; of one tag if given.

        `also` names a second verdict, an outcome component such as `process`: a sample then counts as solved, 1.0,
        where both are 1.0, and else 0.0 (for pass@k, this is CoT-Pass@K of Wen et al. 2025, arXiv:2506.14245).
        Raises: EvaluationError where an episode lacks the second verdict.
        """
        return [self.verdicts(row, also) for row in self.select(tag) if row.observed]

    @staticmethod
    def verdicts(row: Row, also: str | None = None) -> list[float]:
        """The observed samples of one task, with a second verdict if `also` names one; see `outcomes`."""
        return row.observed if also is None else _both(row, also)

    def pass_curve(
        self,
        ks: Sequence[int] | None = None,
        *,
        all_of_them: bool = False,
        tag: str | None = None,
        also: str | None = None,
    ) -> dict[int, Estimate]:
        """pass@k, or pass^k, for several k with intervals; see statistics.pass_curve, and `outcomes` for `also`."""
        return pass_curve(self.outcomes(tag, also=also), ks, all_of_them=all_of_them)

    def within(self, unit: str, budgets: Sequence[float], tag: str | None = None) -> dict[float, Estimate]:
        """Success if what spent more than a budget counted as unsolved: score@turn-k and the like.

        Args:
            unit: `turns`, `calls` or `tokens`. budgets: in that unit; see statistics.solved_within.
        Raises: EvaluationError for another unit.
        """
        if unit not in ("turns", "calls", "tokens"):
            raise EvaluationError(f"There is no budget of {unit!r}: turns, calls and tokens are recorded.")
        rows = [row for row in self.select(tag) if row.observed]
        spent: Outcomes = [
            [float(n) for n, value in zip(getattr(row, unit), row.success, strict=True) if value is not None]
            for row in rows
        ]
        return solved_within([row.observed for row in rows], spent, budgets)

    def select(self, tag: str | None = None) -> list[Row]:
        """The rows that carry a tag, or all."""
        return [row for row in self.rows if tag is None or tag in row.tags]

    def success(self, tag: str | None = None, *, also: str | None = None) -> Estimate:
        """Mean success over tasks with its 95 % interval; `also` as in `outcomes`."""
        return success_rate(self.outcomes(tag, also=also))

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

    def examples(self, kind: str, most: int = 3) -> list[str]:
        """Ids of up to `most` episodes in which something of this kind went wrong, for `agentgym show --episode`."""
        ids = [
            f"{self.run}/{row.task}#{i}"
            for row in self.rows
            for i, counts in enumerate(row.failures)
            if counts.get(kind)
        ]
        return ids[:most]

    def usage(self) -> dict[str, float]:
        """What all episodes took together, failed ones too, by name as in `Trajectory.usage`; of peaks the highest."""
        return combine_usage([used for row in self.rows for used in row.usage])

    def execution_rate(self) -> float:
        """Calls that ran and came back without an error, as a share of all calls; NaN without any call."""
        calls = sum(sum(row.calls) for row in self.rows)
        return sum(sum(row.calls_ok) for row in self.rows) / calls if calls else float("nan")

    def mean_turns(self) -> float:
        """Turns per episode that did not fail; NaN without any."""
        return _mean(n for row in self.rows for n, s in zip(row.turns, row.success, strict=True) if s is not None)

    def digest(self) -> dict[str, Any]:
        """The headline numbers as JSON-able data, for scripts: success, pass@k and pass^k with intervals, failures."""
        ks = {"pass_at": self.pass_curve(), "pass_hat": self.pass_curve(all_of_them=True)} if self.outcomes() else {}
        return {
            "success": asdict(self.success()) if ks else None,
            "tasks": len(self.rows),
            "failed": self.failed,
            **{name: {str(k): asdict(found) for k, found in curve.items()} for name, curve in ks.items()},
            "failures": dict(self.failures()),
            "usage": self.usage(),
            "duration_s": self.duration_s,
            "opened": self.opened,
        }

    def summary(self) -> str:
        """One line for a terminal or a log."""
        line = f"{self.label}: {self.success().percent()} of {len(self.rows)} tasks solved ({self.policy})"
        line += f", held-out tasks opened {times(self.opened)} before" if self.opened else ""
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
                f"{100 * change.high:+.0f}, p = {gain.permutation_p:.1g}"
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
        digest.update(_as_bytes(task))
        digest.update(b"\n")
    return digest.hexdigest()[:16]


def hash_of(task: Task) -> str:
    """Hash of one task, truth included: two evaluations compare only tasks of which it is the same."""
    return hashlib.sha256(_as_bytes(task)).hexdigest()[:16]


def _as_bytes(task: Task) -> bytes:
    return json.dumps(task_to_json(task), sort_keys=True, ensure_ascii=False, default=str).encode()


def _both(row: Row, also: str) -> list[float]:
    found = []
    for index, value in enumerate(row.success):
        if value is None:
            continue
        outcome = row.outcome[index] if index < len(row.outcome) else {}
        if also not in outcome:
            raise EvaluationError(
                f"{row.task!r} was judged without the component {also!r} (it has {', '.join(outcome) or 'none'}). "
                "Judge the episodes again with a reward that returns it: agentgym rescore."
            )
        found.append(float(value >= 1.0 and outcome[also] >= 1.0))
    return found


def _solved(samples: Sequence[float]) -> int:
    return sum(value >= 1.0 for value in samples)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found) if found else float("nan")


def times(count: int) -> str:
    """How often, in words: once, 3 times."""
    return "once" if count == 1 else f"{count} times"
