"""Read SQuAD, XQuAD and files of their shape from a file that the user has; no data is part of this package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentgym import Split, Task, TaskError, TaskSet

from .question_files import ENVIRONMENT, question_set, question_task


def load_squad(
    path: str | Path,
    *,
    split: Split = "held_out",
    environment: str = ENVIRONMENT,
    name: str = "search/squad-v1",
) -> TaskSet:
    """The questions of a SQuAD file (Rajpurkar et al. 2016), to be answered by search over all its paragraphs.

    Each paragraph is a page, named like "Title, part 3", with links to the parts before and after it. It is the gold
    page of the questions about it. Unanswerable questions (SQuAD 2.0) are left out.

    Args:
        path: a JSON document with `data`, a list of articles.
        split, environment, name: as in `load_hotpot`.
    Raises: TaskError naming the file, the article and its fault.
    """
    path = Path(path)
    try:
        articles: Any = json.loads(path.read_text(encoding="utf-8-sig"))["data"]
    except OSError as error:
        raise TaskError(f"Cannot read {path}: {error.strerror}. Give the path of a SQuAD file.") from error
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise TaskError(f"{path} is not a SQuAD file, which is a JSON object with the list `data`: {error}.") from error
    tasks: list[Task] = []
    for number, article in enumerate(articles):
        try:
            tasks += _tasks(path, article, number, split, environment, name)
        except (KeyError, TypeError) as error:
            raise TaskError(f"{path}, article {number} does not have SQuAD's form: {error!r}.") from error
    if not tasks:
        raise TaskError(f"{path} contains no answerable question.")
    return question_set(name, path, tasks, split)


def _tasks(path: Path, article: Any, number: int, split: Split, environment: str, name: str) -> list[Task]:
    title = str(article.get("title") or f"Article {number + 1}").replace("_", " ")
    return [
        question_task(
            f"{name.split('/')[-1]}/{question['id']}",
            question["question"],
            list(dict.fromkeys(answer["text"] for answer in question["answers"])),
            where=f"{path}, article {number}, question {question['id']}",
            corpus=path,
            pages=[f"{title}, part {number}"],
            split=split,
            environment=environment,
        )
        for number, paragraph in enumerate(article["paragraphs"], start=1)
        for question in paragraph["qas"]
        if question["answers"]
    ]
