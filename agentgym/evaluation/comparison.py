"""Paired comparison of two agents on the same tasks; raises if the tasks differ."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from agentgym.errors import EvaluationError
from agentgym.evaluation.record import Evaluation, manifest_of
from agentgym.evaluation.statistics.bootstrap import mean_interval
from agentgym.evaluation.statistics.estimate import Comparison, Outcomes, check_level, no_data, task_means
from agentgym.evaluation.statistics.permutation import sign_flip_test, sign_test
from agentgym.evaluation.statistics.score import FEW_TASKS, differing_tasks, score_interval
from agentgym.task.definition import Task
from agentgym.task.task_set import TaskSet


def paired(
    before: Outcomes, after: Outcomes, *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Comparison:
    """Compare two agents on the same tasks, entry by entry.

    The interval is the expanded percentile bootstrap over the tasks' differences. If at most ten tasks deviate from the
    most common difference, that interval is too narrow, and the score interval is used instead (Tango's interval for
    one sample per task). benchmarks/intervals.py simulates the coverage
    of both intervals.
    Raises: EvaluationError if the lists differ in length, or a task has no sample on either side.
    Source: see mean_interval, score_interval, sign_test and sign_flip_test.
    """
    check_level(level)
    if len(before) != len(after):
        raise EvaluationError(
            f"There are {len(before)} tasks before and {len(after)} after, but a paired comparison needs the same "
            "tasks."
        )
    delta = task_means(after) - task_means(before)
    delta[np.abs(delta) < 1e-12] = 0.0  # so that rounding does not make 0.1 + 0.2 and 0.3 different scores
    better, worse = int((delta > 0).sum()), int((delta < 0).sum())
    if delta.size == 0:
        return Comparison(no_data(level, "paired bootstrap"), 0, 0, 0, 1.0)
    bounded = all(0 <= value <= 1 for samples in (*before, *after) for value in samples)
    if bounded and differing_tasks(delta) <= FEW_TASKS:
        difference = score_interval(delta, -1.0, 1.0, level=level)
    else:
        difference = mean_interval(delta, level=level, resamples=resamples, seed=seed, method="paired bootstrap")
    same = delta.size - better - worse
    return Comparison(difference, better, worse, same, sign_test(better, worse), sign_flip_test(delta, seed=seed))


def compare(
    before: Evaluation, after: Evaluation, *, tag: str | None = None, also: str | None = None, level: float = 0.95
) -> Comparison:
    """Return the gain from `before` to `after` with its paired interval, over all tasks or the tasks of one tag.

    A task without an observed episode on either side is omitted. `also` names a second outcome component that must also
    be 1 (see Evaluation.outcomes).
    Raises: EvaluationError if the two did not play exactly the same tasks.
    """
    check_same_tasks(before, after)
    pairs = [
        (row_before.verdicts(also), row_after.verdicts(also))
        for row_before, row_after in zip(before.select(tag), after.select(tag), strict=True)
        if row_before.observed and row_after.observed
    ]
    return paired([pair[0] for pair in pairs], [pair[1] for pair in pairs], level=level)


def on_common_tasks(evaluations: Sequence[Evaluation]) -> list[Evaluation]:
    """Return the evaluations reduced to the tasks that all of them played, in the order of the first.

    Tasks are matched by id and full hash; the id alone would not reveal a changed task.
    Raises: EvaluationError if a record is too old to hold hashes, or no task is common.
    """
    if old := [e.label for e in evaluations if not all(row.hash for row in e.rows)]:
        raise EvaluationError(
            f"The evaluation {old[0]!r} has no hash of each task, because an older agentgym wrote it. Evaluate again."
        )
    tables = [{(row.task, row.hash): row for row in evaluation.rows} for evaluation in evaluations]
    common = [key for key in tables[0] if all(key in table for table in tables[1:])]
    if not common:
        raise EvaluationError(
            "The evaluations have no task in common, so they cannot be compared. Evaluate both on the same tasks."
        )
    manifest = hashlib.sha256("\n".join(key[1] for key in common).encode()).hexdigest()[:16]
    return [
        replace(evaluation, rows=[table[key] for key in common], manifest=manifest)
        for evaluation, table in zip(evaluations, tables, strict=True)
    ]


def check_same_tasks(before: Evaluation, after: Evaluation) -> None:
    """Raise EvaluationError, which says how the tasks differ, if two evaluations played different tasks."""
    _check(before, after.label, f"{after.task_set}:{after.split}", [row.task for row in after.rows], after.manifest)


def check_tasks(before: Evaluation, task_set: TaskSet, split: str, tasks: Sequence[Task]) -> None:
    """Raise EvaluationError if an evaluation played other tasks than these, which are to be played next."""
    names = [task.id for task in tasks]
    _check(before, "what is to be evaluated", f"{task_set.name}:{split}", names, manifest_of(tasks))


def _check(before: Evaluation, label: str, split: str, theirs: list[str], manifest: str) -> None:
    ours = [row.task for row in before.rows]
    if before.manifest == manifest and ours == theirs:
        return
    where = f"{before.label!r} and {label!r} cannot be compared: "
    advice = " Evaluate both on the same task set, split and limit, then compare."
    if f"{before.task_set}:{before.split}" != split:
        raise EvaluationError(
            f"{where}one was played on {before.task_set}:{before.split}, the other on {split}.{advice}"
        )
    only_ours, only_theirs = sorted(set(ours) - set(theirs)), sorted(set(theirs) - set(ours))
    if only_ours or only_theirs:
        raise EvaluationError(
            f"{where}{len(only_ours)} tasks are only in the first{_first(only_ours)}, and {len(only_theirs)} only in "
            f"the second{_first(only_theirs)}.{advice}"
        )
    if ours != theirs:
        raise EvaluationError(f"{where}the same tasks were played in a different order.{advice}")
    raise EvaluationError(
        f"{where}the tasks have the same ids, but different contents (manifest {before.manifest} and {manifest}), so "
        "the task set has changed in between. Evaluate both again on one version of it."
    )


def _first(names: list[str]) -> str:
    return f" (for example {names[0]!r})" if names else ""
