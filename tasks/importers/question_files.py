"""Make tasks of the search environments, for all importers of question answering."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from agentgym import Call, Message, Split, Task, TaskError, TaskSet

from ..landmarks import landmark

ENVIRONMENT = "agentgym/search-v1"


def question_task(
    name: str,
    prompt: Any,
    answers: Any,
    *,
    where: str,
    corpus: Path,
    pages: Iterable[str] = (),
    split: Split = "held_out",
    environment: str = ENVIRONMENT,
    tags: Iterable[str] = (),
    difficulty: float = 0.0,
) -> Task:
    """Return a question as a task.

    Args:
        name: the task's id.
        prompt: the question's text.
        answers: the right answer, or a list of right answers.
        where: prefix of error messages.
        corpus: the path of the pages.
        pages: titles of the pages that the answer needs.
    Raises: TaskError if question or answers are not text.
    """
    golds = [answers] if isinstance(answers, (str, int, float)) else answers
    if not isinstance(prompt, str) or not prompt.strip():
        raise TaskError(f"{where}: the question must be text, not {prompt!r}.")
    if not (isinstance(golds, (list, tuple)) and golds and all(isinstance(gold, (str, int, float)) for gold in golds)):
        raise TaskError(f"{where}: the answer must be text or a list of texts, not {answers!r}.")
    titles = list(dict.fromkeys(pages))
    truth: dict[str, Any] = {"answer": str(golds[0]), "answers": [str(gold) for gold in golds[1:]]}
    if titles:
        truth["pages"] = {title: position for position, title in enumerate(titles, start=1)}
    return Task(
        id=name,
        environment=environment,
        prompt=prompt.strip(),
        parameters={"corpus": str(corpus.resolve()), "landmarks": [landmark(title) for title in titles]},
        truth=truth,
        split=split,
        tags=tuple(tags),
        difficulty=difficulty,
    )


def question_set(name: str, path: Path, tasks: Sequence[Task], split: Split) -> TaskSet:
    """Return the set of these tasks, all in one split. Raises: TaskError if an id occurs twice."""
    numbers: dict[str, int] = {}
    for number, task in enumerate(tasks):
        if task.id in numbers:
            raise TaskError(f"{path}, item {number}: the id {task.id!r} is already used by item {numbers[task.id]}.")
        numbers[task.id] = number
    return TaskSet(name, {split: tasks}, answer=_answer)


def _answer(task: Task) -> Message:
    """Return the message that gives the right answer, made from the truth."""
    return Message("assistant", "", (Call("answer", {"text": task.truth["answer"]}),))
