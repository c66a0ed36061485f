"""The task set `code/shell-v1`: generated jobs for a shell, judged by the resulting files."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache

from agentgym import Call, Message, Task, TaskSet

from ..generator import TaskGenerator, TaskSlot
from .file_tree import KNOWN, UNSEEN, FileTree, generate
from .jobs import KNOWN_JOBS, UNSEEN_JOBS, Job

NAME = "code/shell-v1"
SIZES = {"train": 1_000, "validation": 120, "unseen_files": 120, "unseen_jobs": 120}
BANDS = {
    "count_level": 1,
    "sum_column": 1,
    "set_option": 1,
    "unique_names": 2,
    "slowest": 2,
    "rename_suffix": 2,
    "delete_leftovers": 2,
    "script_of_column": 3,
    "move_long": 3,
    "total_by_name": 3,
    "busiest": 3,
    "pack": 2,
    "split_table": 3,
}


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Files to be put in order with shell commands.

    The seed chooses the files and jobs.

    Held-out tasks carry the tag `unseen_files` (jobs of the training tasks, on files with other names and words) or
    `unseen_jobs` (jobs that no training task has, on such files). Difficulty is the band of the job, 1 to 3.
    """
    draw = TaskGenerator(NAME, SIZES, seed, key=None).draw
    held_out = [*draw("unseen_files", _task, KNOWN_JOBS), *draw("unseen_jobs", _task, UNSEEN_JOBS)]
    train, validation = draw("train", _task, KNOWN_JOBS), draw("validation", _task, KNOWN_JOBS)
    return TaskSet(NAME, {"held_out": held_out, "validation": validation, "train": train}, oracle=oracle)


def oracle(task: Task) -> Callable[[Sequence[Message]], Message]:
    """Play two turns: the command, then `done`."""

    def script(messages: Sequence[Message]) -> Message:
        if messages[-1].role != "tool":
            return Message("assistant", "", (Call("bash", {"command": task.truth["command"]}),))
        return Message("assistant", "", (Call("done", {}),))

    return script


def _task(rng: random.Random, slot: TaskSlot, jobs: Mapping[str, Callable[[FileTree, random.Random], Job]]) -> Task:
    """Make one task. Jobs alternate with the slot's index."""
    tree = generate(rng, UNSEEN if slot.split == "held_out" else KNOWN)
    name = list(jobs)[slot.index % len(jobs)]
    prompt, command, checks = jobs[name](tree, rng)
    return Task(
        id=slot.id,
        environment="agentgym/code-bash-v1",
        prompt=prompt,
        parameters={"files": dict(tree.files)},
        truth={**checks, "command": command},
        split=slot.split,
        tags=(name, *slot.tags),
        difficulty=float(BANDS[name]),
    )
