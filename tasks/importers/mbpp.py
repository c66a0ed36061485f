"""Read MBPP (Mostly Basic Python Problems) from a file that the user has; the data is never part of this package."""

from __future__ import annotations

import ast
import builtins
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym import Split, Task, TaskError, TaskSet

from .humaneval import submit_reference
from .items import field, read_items, report_left_out

FIELDS = {
    "question": ("query", "text", "prompt"),
    "solution": ("gold", "code"),
    "tests": ("tests", "test_list"),
}
"""Field names in the known packagings of MBPP: InterCode's, the original and the sanitised one."""


def load_mbpp(path: str | Path, *, split: Split = "held_out") -> TaskSet:
    """The problems of an MBPP file as tasks of `agentgym/code-v1`, held out by default.

    The agent sees the first assertion and may try it; all assertions judge. Problems whose set-up code or tests need a
    name that nothing defines cannot be solved: they are left out, and a warning names them.

    Args:
        path: a JSON array, or one JSON object per line, perhaps gzipped.
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
    Raises: TaskError naming the file, the item and its fault.
    """
    path = Path(path)
    tasks: list[Task] = []
    reasons: dict[str, str] = {}
    index_by_id: dict[str, int] = {}
    for index, item in enumerate(read_items(path)):
        where = f"{path}, item {index}"
        task = _task(item, where, split)
        if task.id in index_by_id:
            raise TaskError(f"{where}: task_id {item['task_id']!r} is already used by item {index_by_id[task.id]}.")
        index_by_id[task.id] = index
        if missing := _undefined(task, where):
            reasons[task.id] = f"no code can pass its tests, because nothing defines {', '.join(sorted(missing))}"
        else:
            tasks.append(task)
    report_left_out(path, reasons, len(tasks))
    return TaskSet("code/mbpp-v1", {split: tasks}, oracle=submit_reference)


def _task(item: dict[str, Any], where: str, split: Split) -> Task:
    question, solution, tests = (field(item, where, *names) for names in FIELDS.values())
    setup = item.get("test_setup_code") or ""
    if not (isinstance(question, str) and isinstance(solution, str) and isinstance(setup, str)):
        raise TaskError(f"{where}: question, solution and set-up code must be text.")
    if not (isinstance(tests, list) and tests and all(isinstance(test, str) for test in tests)):
        raise TaskError(f"{where}: the tests must be a list of assertions, not {tests!r}.")
    if not isinstance(item.get("task_id"), int | str):
        raise TaskError(f"{where}: the field 'task_id' is missing.")
    return Task(
        id=f"mbpp/{item['task_id']}",
        environment="agentgym/code-v1",
        prompt=f"{question.strip()}\nFor example: {tests[0].strip()}",
        parameters={"tests": tests[:1], "setup": setup},
        truth={"tests": tests, "setup": setup, "reference": solution},
        split=split,
        tags=("mbpp",),
    )


def _undefined(task: Task, where: str) -> set[str]:
    """Return names that the agent cannot know: used by set-up code or tests, and defined nowhere."""
    setup = _names(task.truth["setup"], f"{where}: the set-up")
    tests = _names("\n".join(task.truth["tests"]), f"{where}: the tests")
    solution = _names(task.truth["reference"], f"{where}: the solution")
    known = set(dir(builtins)) | setup.bound
    return (setup.used - known) | (tests.used - known - solution.bound - tests.bound)


@dataclass(frozen=True, slots=True)
class _Names:
    used: set[str]
    bound: set[str]


def _names(source: str, where: str) -> _Names:
    """Return the names that code reads, and the names that it binds anywhere. Raises: TaskError prefixed by `where`."""
    names = _Names(set(), set())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # strings such as "\\w" without an r are common in public data
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise TaskError(f"{where} cannot be parsed as Python: {error}.") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (names.used if isinstance(node.ctx, ast.Load) else names.bound).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.bound.add(node.name)
        elif isinstance(node, ast.alias):
            names.bound.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.arg):
            names.bound.add(node.arg)
    return names
