"""Two agents on the same tasks, pair by pair; refused where the tasks differ."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.errors import EvaluationError
from agentgym.evaluation.record import Evaluation, manifest_of
from agentgym.evaluation.statistics import Comparison, paired
from agentgym.task import Task, TaskSet


def compare(before: Evaluation, after: Evaluation, *, tag: str | None = None, level: float = 0.95) -> Comparison:
    """The gain from `before` to `after` with its paired interval, over all tasks or those of one tag.

    A task that lost every sample to failures on either side is left out of the pair.
    Raises: EvaluationError if the two did not play exactly the same tasks.
    """
    check_same_tasks(before, after)
    pairs = [
        (one.observed, two.observed)
        for one, two in zip(before.select(tag), after.select(tag), strict=True)
        if one.observed and two.observed
    ]
    return paired([one for one, _ in pairs], [two for _, two in pairs], level=level)


def check_same_tasks(before: Evaluation, after: Evaluation) -> None:
    """Raises: EvaluationError saying how the tasks of the two differ."""
    _check(before, after.label, f"{after.task_set}:{after.split}", [row.task for row in after.rows], after.manifest)


def check_tasks(before: Evaluation, task_set: TaskSet, split: str, tasks: Sequence[Task]) -> None:
    """As check_same_tasks, against tasks that are yet to be played."""
    names = [task.id for task in tasks]
    _check(before, "what is asked now", f"{task_set.name}:{split}", names, manifest_of(tasks))


def _check(before: Evaluation, label: str, played: str, theirs: list[str], manifest: str) -> None:
    ours = [row.task for row in before.rows]
    if before.manifest == manifest and ours == theirs:
        return
    where = f"{before.label!r} and {label!r} cannot be compared: "
    advice = " Evaluate both on the same task set, split and limit, then compare."
    if f"{before.task_set}:{before.split}" != played:
        raise EvaluationError(f"{where}one played {before.task_set}:{before.split}, the other {played}.{advice}")
    only_ours, only_theirs = sorted(set(ours) - set(theirs)), sorted(set(theirs) - set(ours))
    if only_ours or only_theirs:
        raise EvaluationError(
            f"{where}{len(only_ours)} tasks are only in the first{_first(only_ours)}, {len(only_theirs)} only in "
            f"the second{_first(only_theirs)}.{advice}"
        )
    if ours != theirs:
        raise EvaluationError(f"{where}they played the same tasks in another order.{advice}")
    raise EvaluationError(
        f"{where}the tasks have the same ids but not the same content (manifest {before.manifest} and "
        f"{manifest}): the task set changed in between. Evaluate both again on one version of it."
    )


def _first(names: list[str]) -> str:
    return f" (for example {names[0]!r})" if names else ""
