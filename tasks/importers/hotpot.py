"""Read HotpotQA from a file that the user has; the data is never part of this package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentgym import Split, TaskError, TaskSet

from .items import field, read_items
from .page_names import PageNames
from .question_files import ENVIRONMENT, question_set, question_task

LEVELS = {"easy": 1.0, "medium": 2.0, "hard": 3.0}


def load_hotpot(
    path: str | Path,
    *,
    corpus: str | Path | None = None,
    split: Split = "held_out",
    environment: str = ENVIRONMENT,
    name: str = "search/hotpot-v1",
) -> TaskSet:
    """The questions of a HotpotQA file (Yang et al. 2018) as tasks of a search environment.

    Gold pages are the titles in `supporting_facts`, if the file has them. If two paragraphs with the same title have
    different texts, the second is called `Title (2)`, as in the search environment.

    Args:
        path: a JSON array, or one JSON object per line.
        corpus: the pages to search; by default the paragraphs of all questions (the distractor setting). For the
            full-wiki setting, give the file of your Wikipedia passages.
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
        environment: registered id of the tasks' environment. `name`: the name of the set.
    Raises: TaskError naming the file, the item and its fault.
    """
    path = Path(path)
    tasks, names = [], PageNames()
    for number, row in enumerate(read_items(path)):
        where = f"{path}, item {number}"
        own_names = _names_of(row.get("context"), names) if corpus is None else {}
        titles = supporting_titles(row.get("supporting_facts", []), where)
        tasks.append(
            question_task(
                f"{name.split('/')[-1]}/{field(row, where, '_id', 'id')}",
                field(row, where, "question"),
                field(row, where, "answer"),
                where=where,
                corpus=Path(corpus or path),
                pages=[own_names.get(title, title) for title in titles],
                split=split,
                environment=environment,
                tags=[str(row[key]) for key in ("type", "level") if key in row],
                difficulty=LEVELS.get(str(row.get("level")), 0.0),
            )
        )
    return question_set(name, path, tasks, split)


def _names_of(context: Any, names: PageNames) -> dict[str, str]:
    """Return, by title, the search environment's names of the pages in a question's context."""
    pairs = context
    if isinstance(context, dict):
        sentences: Any = context.get("sentences", context.get("content", ()))
        pairs = zip(context.get("title", ()), sentences, strict=False)
    named: dict[str, str] = {}
    for pair in pairs or ():
        if isinstance(pair, (list, tuple)) and len(pair) == 2:  # the environment refuses all other forms
            text = pair[1] if isinstance(pair[1], str) else " ".join(str(sentence).strip() for sentence in pair[1])
            named.setdefault(str(pair[0]), names.name(str(pair[0]), text))
    return named


def supporting_titles(facts: Any, where: str) -> list[str]:
    """Return the titles of supporting facts, which are given as pairs of title and sentence, or as a list of titles and
    one of sentences.
    """
    if isinstance(facts, dict):
        facts = [[title] for title in facts.get("title", [])]
    try:
        return [str(title) for title, *_ in facts]
    except (TypeError, ValueError) as error:
        raise TaskError(
            f"{where}: the supporting facts must be pairs [title, sentence], not {str(facts)[:80]}."
        ) from error
