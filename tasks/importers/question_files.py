"""What the importers of question answering share: making a task of the search environment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from agentgym import Call, Message, Split, Task, TaskError, TaskSet

from ..landmarks import landmark

ENVIRONMENT = "agentgym/search-v1"


def question_task(
    name: str,
    asked: Any,
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
    """A question as a task.

    Args:
        name: its id. `asked`: its text. `answers`: one, or several that are all right.
        where: begins an error. `corpus`: path of the pages. `pages`: titles that the answer needs.
    Raises: TaskError if question or answers are no text.
    """
    golds = [answers] if isinstance(answers, (str, int, float)) else answers
    if not isinstance(asked, str) or not asked.strip():
        raise TaskError(f"{where}: the question is {asked!r}, where text is expected.")
    if not (isinstance(golds, (list, tuple)) and golds and all(isinstance(gold, (str, int, float)) for gold in golds)):
        raise TaskError(f"{where}: the answer is {answers!r}, where text or a list of texts is expected.")
    titles = list(dict.fromkeys(pages))
    truth: dict[str, Any] = {"answer": str(golds[0]), "answers": [str(gold) for gold in golds[1:]]}
    if titles:
        truth["pages"] = {title: place for place, title in enumerate(titles, start=1)}
    return Task(
        id=name,
        environment=environment,
        prompt=asked.strip(),
        parameters={"corpus": str(corpus.resolve()), "landmarks": [landmark(title) for title in titles]},
        truth=truth,
        split=split,
        tags=tuple(tags),
        difficulty=difficulty,
    )


def question_set(name: str, path: Path, tasks: Sequence[Task], split: Split) -> TaskSet:
    """The set of these tasks, all in one split. Raises: TaskError for an id that occurs twice."""
    seen: dict[str, int] = {}
    for place, task in enumerate(tasks):
        if task.id in seen:
            raise TaskError(f"{path}, item {place}: the id {task.id!r} is already used by item {seen[task.id]}.")
        seen[task.id] = place
    return TaskSet(name, {split: tasks}, answer=_answer)


def _answer(task: Task) -> Message:
    """The message that answers rightly, from the truth: trainers may ask how likely it is (information gain)."""
    return Message("assistant", "", (Call("answer", {"text": task.truth["answer"]}),))
