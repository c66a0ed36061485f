"""The outcomes of an evaluation's episodes, task by task, and their statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from agentgym.errors import EvaluationError
from agentgym.evaluation.cuts import count_cuts
from agentgym.evaluation.statistics.choosing import Key, choose_curve
from agentgym.evaluation.statistics.estimate import Estimate, Outcomes
from agentgym.evaluation.statistics.passes import pass_at_k, pass_curve, pass_hat_k
from agentgym.evaluation.statistics.proportion import solved_within, success_rate
from agentgym.sandbox.metering import combine_usage

ATTEMPT_RATES = ("first", "last", "fixed", "broke")
"""Outcome components of episodes with several attempts; each is a share from 0 to 1."""


@dataclass(slots=True)
class TaskOutcome:
    """The outcomes of one task. Every list has one entry for each episode of the task, in order."""

    task: str
    """The id of the task."""
    tags: list[str] = field(default_factory=list)
    """The tags of the task."""
    success: list[float | None] = field(default_factory=list)
    """The `success` component; None if the episode failed, which is a missing observation, not a zero."""
    turns: list[int] = field(default_factory=list)
    """The number of turns."""
    stop: list[str] = field(default_factory=list)
    """The stop reason."""
    calls: list[int] = field(default_factory=list)
    """The number of calls."""
    calls_ok: list[int] = field(default_factory=list)
    """The number of calls that returned without an error."""
    reward: list[float] = field(default_factory=list)
    """The sum of the weighted outcome and turn rewards, in reward units."""
    tokens: list[int] = field(default_factory=list)
    """The tokens that the agent wrote; 0 if the policy counts none."""
    duration_s: list[float] = field(default_factory=list)
    """The wall time of the episode in seconds."""
    failures: list[dict[str, int]] = field(default_factory=list)
    """What went wrong, as counts by kind; see agentgym.evaluation.failures."""
    usage: list[dict[str, float]] = field(default_factory=list)
    """The usage of sandboxes, tools and API, by name as in `Trajectory.usage`."""
    outcome: list[dict[str, float]] = field(default_factory=list)
    """All outcome components by name, unweighted; empty if the episode failed."""
    hash: str = ""
    """A hash of the whole task, truth included."""
    error: list[str] = field(default_factory=list)
    """Why the episode failed, in one line; empty if it did not fail."""
    choices: dict[str, list[Key]] = field(default_factory=dict)
    """What each episode is chosen by, for every way to choose among them: see agentgym.evaluation.choices."""

    @property
    def observed(self) -> list[float]:
        """The success of each episode whose infrastructure did not fail."""
        return [value for value in self.success if value is not None]

    def verdicts(self, also: str | None = None) -> list[float]:
        """Return `observed`, combined with the component named by `also`; see `OutcomeStatistics.outcomes`."""
        if also is None:
            return self.observed
        verdicts = []
        for index, value in enumerate(self.success):
            if value is None:
                continue
            components = self.outcome[index] if index < len(self.outcome) else {}
            if also not in components:
                raise EvaluationError(
                    f"{self.task!r} was judged without the component {also!r}; its components are: "
                    f"{', '.join(components) or 'none'}. Judge the episodes again with a reward that returns it, by "
                    "agentgym episodes rescore."
                )
            verdicts.append(float(value >= 1.0 and components[also] >= 1.0))
        return verdicts


class OutcomeStatistics:
    """Statistics over task outcomes, a base of `Evaluation`. Failed episodes are excluded from every rate."""

    __slots__ = ()
    rows: list[TaskOutcome]
    run: str

    @property
    def failed(self) -> int:
        """The number of episodes that failed through no fault of the agent."""
        return sum(value is None for row in self.rows for value in row.success)

    @property
    def tags(self) -> list[str]:
        """Every tag of the tasks, most frequent first."""
        return [tag for tag, _ in Counter(tag for row in self.rows for tag in row.tags).most_common()]

    def select(self, tag: str | None = None) -> list[TaskOutcome]:
        """Return the tasks with a tag, or all."""
        return [row for row in self.rows if tag is None or tag in row.tags]

    def outcomes(self, tag: str | None = None, *, also: str | None = None) -> list[list[float]]:
        """Return the success of the observed episodes per task; omit tasks without any.

        `also` names a second outcome component such as `process`: an episode then counts as 1.0 if both are 1.0, and
        else as 0.0 (for pass@k, this is CoT-Pass@K of Wen et al. 2025, arXiv:2506.14245).
        Raises: EvaluationError if an episode lacks the second component.
        """
        return [row.verdicts(also) for row in self.select(tag) if row.observed]

    def success(self, tag: str | None = None, *, also: str | None = None) -> Estimate:
        """Return the mean success over tasks with its 95 % interval; `also` as in `outcomes`."""
        return success_rate(self.outcomes(tag, also=also))

    def attempts(self, tag: str | None = None) -> dict[str, Estimate]:
        """Return the means of `first`, `last`, `fixed` and `broke`; empty unless episodes have several attempts."""
        estimates = {name: self.component(name, tag) for name in ATTEMPT_RATES}
        return estimates if all(estimate.n for estimate in estimates.values()) else {}

    def component(self, name: str, tag: str | None = None) -> Estimate:
        """Return the mean over tasks of an unweighted outcome component; episodes without it are left out."""
        values = [[outcome[name] for outcome in row.outcome if name in outcome] for row in self.select(tag)]
        return success_rate([task for task in values if task])

    def pass_at(self, k: int, tag: str | None = None) -> float:
        """Return the mean pass@k over tasks. Raises: EvaluationError if a task has fewer than k observed episodes."""
        return _mean(pass_at_k(len(task), _solved(task), k) for task in self.outcomes(tag))

    def pass_hat(self, k: int, tag: str | None = None) -> float:
        """Return the mean pass^k over tasks. Raises: EvaluationError if a task has fewer than k observed episodes."""
        return _mean(pass_hat_k(len(task), _solved(task), k) for task in self.outcomes(tag))

    def pass_curve(
        self,
        ks: Sequence[int] | None = None,
        *,
        all_of_them: bool = False,
        tag: str | None = None,
        also: str | None = None,
    ) -> dict[int, Estimate]:
        """Return pass@k or pass^k for several k with intervals; see statistics.pass_curve; `also` as in `outcomes`."""
        return pass_curve(self.outcomes(tag, also=also), ks, all_of_them=all_of_them)

    def chosen(self, name: str, tag: str | None = None) -> dict[int, Estimate]:
        """Return the success of the one episode that is chosen among k, for several k; see statistics.choose_curve."""
        rows = [row for row in self.select(tag) if row.observed]
        keys = [
            [key for key, value in zip(row.choices[name], row.success, strict=True) if value is not None]
            for row in rows
        ]
        return choose_curve([row.observed for row in rows], keys)

    def within(self, unit: str, budgets: Sequence[float], tag: str | None = None) -> dict[float, Estimate]:
        """Return the success rate per budget if episodes over the budget counted as unsolved, such as score@turn-k.

        Args:
            unit: `turns`, `calls` or `tokens`. budgets: in that unit; see statistics.solved_within.
        Raises: EvaluationError for another unit.
        """
        if unit not in ("turns", "calls", "tokens"):
            raise EvaluationError(
                f"A budget cannot be counted in {unit!r}. Choose turns, calls or tokens, which are recorded."
            )
        rows = [row for row in self.select(tag) if row.observed]
        spent: Outcomes = [
            [float(n) for n, value in zip(getattr(row, unit), row.success, strict=True) if value is not None]
            for row in rows
        ]
        return solved_within([row.observed for row in rows], spent, budgets)

    def failures(self) -> Counter[str]:
        """Count the failures of all episodes by kind."""
        total: Counter[str] = Counter()
        for row in self.rows:
            for counts in row.failures:
                total.update(counts)
        return total

    def cuts(self) -> dict[str, int]:
        """Count the episodes ended per budget and the truncated messages; see agentgym.evaluation.cuts."""
        return count_cuts((stop for row in self.rows for stop in row.stop), self.failures())

    def causes(self) -> Counter[str]:
        """Count failed episodes by cause: the error, where it was raised, and during which operation."""
        return Counter(error for row in self.rows for error in row.error if error)

    def examples(self, kind: str, most: int = 3) -> list[str]:
        """Return ids of up to `most` episodes with a failure of this kind, for `agentgym show --episode`."""
        ids = [
            f"{self.run}/{row.task}#{index}"
            for row in self.rows
            for index, counts in enumerate(row.failures)
            if counts.get(kind)
        ]
        return ids[:most]

    def usage(self) -> dict[str, float]:
        """Return usage over all episodes, failed ones too, as in `Trajectory.usage`: sums, but the highest of peaks."""
        return combine_usage([usage for row in self.rows for usage in row.usage])

    def execution_rate(self) -> float:
        """Return the share of calls that returned without an error; NaN without calls."""
        calls = sum(sum(row.calls) for row in self.rows)
        return sum(sum(row.calls_ok) for row in self.rows) / calls if calls else float("nan")

    def mean_turns(self) -> float:
        """Return the mean turns of the episodes that did not fail; NaN without any."""
        return _mean(n for row in self.rows for n, s in zip(row.turns, row.success, strict=True) if s is not None)


def _solved(success: Sequence[float]) -> int:
    return sum(value >= 1.0 for value in success)


def _mean(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers) if numbers else float("nan")
