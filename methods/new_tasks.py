"""Select generated tasks for training: those of the run's environments that are new and not among the measured
tasks.
"""

from __future__ import annotations

from collections import Counter

from agentgym import Task, TaskSet

__all__ = ["NewTasks"]


class NewTasks:
    """Accept generated tasks, and count the rejected ones by reason.

    Reasons: "environment" if no training task uses the task's environment; "measured" if a validation or held-out task
    asks the same; "repeated" if a training task or an earlier accepted task asks the same.

    Args:
        task_set: the run's task set. All splits are read, so create this object outside of `training_only`.

    Attributes:
        refused: the number of rejected tasks by reason. A generator may count further reasons here.
    """

    def __init__(self, task_set: TaskSet) -> None:
        self.refused: Counter[str] = Counter()
        self._environments = {task.environment for task in task_set["train"]}
        self._known = {task.content_key() for task in task_set["train"]}
        measured = [*task_set["validation"], *task_set["held_out"]]
        self._measured = {task.content_key() for task in measured}
        # If nearly every task has unique words, a task that differs from another only in a number counts as the same:
        # see TaskSet.
        words = {tuple(message.text for message in task.opening()) for task in measured}
        self._tells_by_words = len(words) * 10 > len(measured) * 9
        self._unnumbered = {_unnumbered_key(task) for task in measured}

    def take(self, task: Task) -> bool:
        """Accept a task and return True; if there is a reason against it, count the reason and return False."""
        reason = self.reason_against(task)
        if reason:
            self.refused[reason] += 1
        else:
            self._known.add(task.content_key())
        return not reason

    def reason_against(self, task: Task) -> str:
        """Return the reason to reject a task; "" to accept it."""
        key = task.content_key()
        numbered_anew = self._tells_by_words and task.content_key(numbered=False) != key
        if task.environment not in self._environments:
            return "environment"
        if key in self._measured or (numbered_anew and _unnumbered_key(task) in self._unnumbered):
            return "measured"
        return "repeated" if key in self._known else ""


def _unnumbered_key(task: Task) -> tuple[str, str]:
    return task.content_key(numbered=False), repr(task.truth)
