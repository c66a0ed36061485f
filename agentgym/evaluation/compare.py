"""Two agents on the same tasks, pair by pair; refused where the tasks differ."""

from __future__ import annotations

from agentgym.errors import EvaluationError
from agentgym.evaluation.record import Evaluation
from agentgym.evaluation.statistics import Comparison, paired


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
    ours, theirs = [row.task for row in before.rows], [row.task for row in after.rows]
    if before.manifest == after.manifest and ours == theirs:
        return
    where = f"{before.label!r} and {after.label!r} cannot be compared: "
    advice = " Evaluate both on the same task set, split and limit, then compare."
    if (before.task_set, before.split) != (after.task_set, after.split):
        raise EvaluationError(
            f"{where}one played {before.task_set}:{before.split}, the other {after.task_set}:{after.split}.{advice}"
        )
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
        f"{after.manifest}): the task set changed in between. Evaluate both again on one version of it."
    )


def _first(names: list[str]) -> str:
    return f" (for example {names[0]!r})" if names else ""
