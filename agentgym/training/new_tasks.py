"""Which generated tasks a training takes in: of its own environments, new to it, and none that is measured."""

from __future__ import annotations

from collections import Counter

from agentgym.task import Task, TaskSet
from agentgym.task.definition import BOOKKEEPING


class NewTasks:
    """Takes in generated tasks, and counts those that it refuses, by reason.

    Reasons: "environment", where no training task is of the task's environment; "measured", where a validation or
    held-out task asks the same; "repeated", where a training task, or one that was taken in before, does.

    Args:
        task_set: of the run. All of its splits are read, so make it outside of `training_only`.

    Attributes:
        refused: how many, by reason. A generator may count further reasons in it.
    """

    def __init__(self, task_set: TaskSet) -> None:
        self.refused: Counter[str] = Counter()
        self._environments = {task.environment for task in task_set["train"]}
        self._known = {task.content_key() for task in task_set["train"]}
        measured = [*task_set["validation"], *task_set["held_out"]]
        self._measured = {task.content_key() for task in measured}
        # Where tasks have words of their own, equal words under another number are the same task: see TaskSet.
        words = {tuple(message.text for message in task.opening()) for task in measured}
        self._tells_by_words = len(words) * 10 > len(measured) * 9
        self._unnumbered = {_unnumbered_key(task) for task in measured}

    def take(self, task: Task) -> bool:
        """Take a task in, unless there is a reason against it, which is then counted."""
        reason = self.reason_against(task)
        if reason:
            self.refused[reason] += 1
        else:
            self._known.add(task.content_key())
        return not reason

    def reason_against(self, task: Task) -> str:
        """Why a task may not be taken in; empty if it may."""
        key = task.content_key()
        numbered_anew = self._tells_by_words and bool(BOOKKEEPING & task.parameters.keys())
        if task.environment not in self._environments:
            return "environment"
        if key in self._measured or (numbered_anew and _unnumbered_key(task) in self._unnumbered):
            return "measured"
        return "repeated" if key in self._known else ""


def _unnumbered_key(task: Task) -> tuple[str, str]:
    return task.content_key(numbered=False), repr(task.truth)
