"""Read GSM8K (grade-school mathematics) from a file that the user has; the data is never part of this package.

Source: Cobbe et al. 2021, arXiv:2110.14168. The answer of an item stands after "####".
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentgym.errors import TaskError
from agentgym.messages import Call, Message
from agentgym.task import Split, Task, TaskSet


def load_gsm8k(path: str | Path, *, split: Split = "held_out") -> TaskSet:
    """The problems of a GSM8K file as tasks of `agentgym/code-maths-v1`, held out unless asked otherwise.

    Args:
        path: JSON lines with `question` and `answer`.
        split: where the tasks go. The test file is for measuring; the train file is another one.
    Raises: TaskError naming the file, the line and what is wrong with it.
    """
    path = Path(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"Cannot read {path}: {error}. Give the path of a GSM8K file.") from error
    tasks = [
        _task(line, f"{path}, line {number}", number, split) for number, line in enumerate(lines, 1) if line.strip()
    ]
    if not tasks:
        raise TaskError(f"{path} holds no problem.")
    return TaskSet("code/gsm8k-v1", {split: tasks}, answer=_answer)


def _task(line: str, where: str, number: int, split: Split) -> Task:
    try:
        item: Any = json.loads(line)
        question, solution = item["question"], item["answer"]
        _, mark, answer = solution.rpartition("####")
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise TaskError(f"{where}: expected a JSON object with the texts question and answer: {error!r}.") from error
    if not isinstance(question, str) or not question.strip() or not mark or not answer.strip():
        raise TaskError(f"{where}: no question, or no answer after '####'.")
    return Task(
        id=f"gsm8k/{number:04d}",
        environment="agentgym/code-maths-v1",
        prompt=question.strip(),
        truth={"answer": answer.strip(), "solution": solution},
        split=split,
        tags=("gsm8k",),
    )


def _answer(task: Task) -> Message:
    return Message("assistant", "", (Call("answer", {"text": task.truth["answer"]}),))
