"""Read problems of mathematics with one exact answer: MATH, AIME, AMC, OlympiadBench, Minerva and files like them.

Sources: MATH, Hendrycks et al. 2021, arXiv:2103.03874; OlympiadBench, He et al. 2024, arXiv:2402.14008; Minerva's
problems, Lewkowycz et al. 2022, arXiv:2206.14858. The data is never part of this package.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentgym import Call, Message, Split, Task, TaskError, TaskSet

from .items import read_items, report_left_out, text_of

BOXES = ("\\boxed", "\\fbox")
PROBLEM, ANSWER, SOLUTION = ("problem", "question"), ("answer", "final_answer", "expected_answer"), "solution"
TAGS = ("type", "subject", "subfield", "level")
CHOICES = ("options", "choices")


def load_maths(path: str | Path, *, split: Split = "held_out") -> TaskSet:
    """The problems of a file of mathematics as tasks of `agentgym/code-maths-v1`, held out by default.

    An item has a `problem` or `question`, and an `answer`, `final_answer` or `expected_answer`; or else a `solution`
    with its answer in a box, as in MATH. Problems with several answers or with choices are left out, and a
    LeftOutWarning names them.

    Args:
        path: a JSON array or JSON lines; or a folder of JSON files, an item each, at any depth, as MATH's archive has.
        split: the split of the tasks. Measure with the test file, and train with the train file.
    Raises: TaskError naming the file, the item and its fault.
    """
    path, tasks, reasons = Path(path), [], {}
    for number, (name, item) in enumerate(_items(path)):
        problem = text_of(item, f"{path}, {name or f'item {number}'}", *PROBLEM)
        identity = f"{path.stem}/{name or format(number + 1, '05d')}"
        try:
            answer = _answer_of(item)
        except TaskError as error:
            reasons[identity] = str(error)
            continue
        tasks.append(
            Task(
                id=identity,
                environment="agentgym/code-maths-v1",
                prompt=problem,
                truth={"answer": answer, "solution": item.get(SOLUTION) or ""},
                split=split,
                tags=tuple(dict.fromkeys(str(item[key]) for key in TAGS if item.get(key))),
            )
        )
    report_left_out(path, reasons, len(tasks))
    return TaskSet("code/maths-file-v1", {split: tasks}, answer=_answer)


def _items(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the items, each with its name; the name is empty in a single file, where items are counted."""
    if not path.is_dir():
        return [("", item) for item in read_items(path)]
    files = sorted(path.rglob("*.json"))
    if not files:
        raise TaskError(f"{path} contains no .json file. Give a file of problems, or a folder with one file for each.")
    return [(file.relative_to(path).with_suffix("").as_posix(), _problem_of(file)) for file in files]


def _problem_of(file: Path) -> dict[str, Any]:
    """Return the problem of a file of its own. Raises: TaskError."""
    try:
        item = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise TaskError(f"{file} cannot be read as JSON: {error}.") from error
    if not isinstance(item, dict):
        raise TaskError(
            f"{file} does not hold a single problem, as each file of a folder must. Import this file alone."
        )
    return item


def _answer_of(item: dict[str, Any]) -> str:
    """Return the gold answer. Raises: TaskError with the kind of an item that has not exactly one."""
    if any(item.get(key) for key in CHOICES):
        raise TaskError("it has choices")
    answer = next((item[key] for key in ANSWER if item.get(key) not in (None, "", [])), None)
    if isinstance(answer, list):
        if len(answer) != 1:
            raise TaskError("it has several answers")
        answer = answer[0]
    if isinstance(answer, float) and answer.is_integer():
        answer = int(answer)
    if isinstance(answer, (str, int, float)) and not isinstance(answer, bool) and str(answer).strip():
        return str(answer).strip()
    solution = item.get(SOLUTION)
    if isinstance(solution, str) and any(box in solution for box in BOXES):
        return solution.strip()  # the judge reads the last box
    raise TaskError("it has no answer")


def _answer(task: Task) -> Message:
    return Message("assistant", "", (Call("answer", {"text": task.truth["answer"]}),))
