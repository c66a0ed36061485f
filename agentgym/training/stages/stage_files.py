"""What a stage leaves in its folder for those after it: training tasks."""

from __future__ import annotations

from agentgym.storage.run_folder import RunFolder
from agentgym.task import TaskSet

STEP_TASKS = "tasks.jsonl"


def with_tasks_of(folder: RunFolder, task_set: TaskSet) -> TaskSet:
    """Return a task set with the training tasks that a stage left in its folder; it is validated and measured as
    before.
    """
    tasks = TaskSet.from_jsonl(folder.path / STEP_TASKS)["train"]
    splits = {"train": tasks, "validation": task_set["validation"], "held_out": task_set["held_out"]}
    if {task.environment for task in tasks} <= {task.environment for task in task_set["train"]}:
        return task_set.with_splits(splits)
    return TaskSet(task_set.name, splits)  # the set's players know nothing of these tasks
