"""Read GSM8K (grade-school mathematics) from a file that the user has; the data is never part of this package.

Source: Cobbe et al. 2021, arXiv:2110.14168. An item's answer follows "####".
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentgym import Call, Message, Split, Task, TaskError, TaskSet

from .items import read_items, text_of


def load_gsm8k(path: str | Path, *, split: Split = "held_out") -> TaskSet:
    """The problems of a GSM8K file as tasks of `agentgym/code-maths-v1`, held out by default.

    Args:
        path: JSON lines with `question` and `answer`.
        split: the split of the tasks. Measure with the test file, and train with the train file.
    Raises: TaskError naming the file, the item and its fault.
    """
    path = Path(path)
    tasks = [_task(item, f"{path}, item {number}", number, split) for number, item in enumerate(read_items(path))]
    return TaskSet("code/gsm8k-v1", {split: tasks}, answer=_answer)


def _task(item: dict[str, Any], where: str, number: int, split: Split) -> Task:
    question, solution = text_of(item, where, "question"), text_of(item, where, "answer")
    _, mark, answer = solution.rpartition("####")
    if not mark or not answer.strip():
        raise TaskError(f"{where}: the field answer has no text after '####'.")
    return Task(
        id=f"gsm8k/{number + 1:04d}",
        environment="agentgym/code-maths-v1",
        prompt=question,
        truth={"answer": answer.strip(), "solution": solution},
        split=split,
        tags=("gsm8k",),
    )


def _answer(task: Task) -> Message:
    return Message("assistant", "", (Call("answer", {"text": task.truth["answer"]}),))
