"""Read MuSiQue from a file that the user has; the data is never part of this package."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from agentgym import Split, TaskError, TaskSet

from .items import field, read_items
from .page_names import PageNames
from .question_files import ENVIRONMENT, question_set, question_task


def load_musique(
    path: str | Path,
    *,
    corpus: str | Path | None = None,
    split: Split = "held_out",
    environment: str = ENVIRONMENT,
) -> TaskSet:
    """The answerable questions of a MuSiQue file (Trivedi et al. 2022) as tasks of a search environment.

    Gold pages are the paragraphs marked `is_supporting`, by the names that the search environment gives them: the
    second paragraph with one title is `Title (2)`. With your own corpus the gold pages are the plain titles. Difficulty
    is the number of hops that the id begins with (`2hop__...`). Questions marked as unanswerable are left out.

    Args:
        path: one JSON object per line, or a JSON array.
        corpus: the pages to search; by default the paragraphs of all questions together.
        split, environment: as in `load_hotpot`.
    Raises: TaskError naming the file, the item and its fault.
    """
    path = Path(path)
    tasks, names = [], PageNames()
    for number, row in enumerate(read_items(path)):
        where = f"{path}, item {number}"
        pages = _supporting(row.get("paragraphs", []), where, names if corpus is None else PageNames())
        if row.get("answerable") is False:
            continue
        name = str(field(row, where, "id"))
        hops = re.match(r"(\d)hop", name)
        aliases = row.get("answer_aliases") or []
        if not isinstance(aliases, list):
            raise TaskError(f"{where}: answer_aliases must be a list, not {aliases!r}.")
        tasks.append(
            question_task(
                f"musique-v1/{name}",
                field(row, where, "question"),
                [field(row, where, "answer"), *aliases],
                where=where,
                corpus=Path(corpus or path),
                pages=pages,
                split=split,
                environment=environment,
                tags=[f"hops_{hops[1]}"] if hops else [],
                difficulty=float(hops[1]) if hops else 0.0,
            )
        )
    if not tasks:
        raise TaskError(f"{path} contains no answerable question.")
    return question_set("search/musique-v1", path, tasks, split)


def _supporting(paragraphs: Any, where: str, names: PageNames) -> list[str]:
    if not (
        isinstance(paragraphs, list)
        and all(isinstance(paragraph, dict) and "title" in paragraph for paragraph in paragraphs)
    ):
        raise TaskError(f"{where}: the paragraphs must be objects with a title, not {str(paragraphs)[:80]}.")
    named = [(names.name(str(row["title"]), str(row.get("paragraph_text", ""))), row) for row in paragraphs]
    return [name for name, row in named if row.get("is_supporting")]
