"""Read 2WikiMultihopQA from a file that the user has; the data is never part of this package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentgym import Split, TaskError, TaskSet

from .hotpot import load_hotpot
from .items import field, read_items
from .question_files import ENVIRONMENT, question_set, question_task

NAME = "search/twowiki-v1"


def load_twowiki(
    path: str | Path,
    *,
    corpus: str | Path | None = None,
    split: Split = "held_out",
    environment: str = ENVIRONMENT,
) -> TaskSet:
    """The questions of a 2WikiMultihopQA file (Ho et al. 2020) as tasks of a search environment.

    A file whose questions have their own paragraphs is read like HotpotQA's. Any other file has only triples (subject,
    relation, object) as evidence, and a corpus next to it; a fact stands on the page of its subject. Subjects are
    Wikidata's labels, which may differ from Wikipedia's titles: if a subject is not a title of the corpus, the question
    has no gold pages and only its answer is judged.

    Args:
        path: a JSON array, or one JSON object per line.
        corpus: the pages to search; by default those in the questions, or else `corpus.json` or `corpus.jsonl` next to
            the file.
        split, environment: as in `load_hotpot`.
    Raises: TaskError naming the file, the item and its fault.
    """
    path = Path(path)
    rows = read_items(path)
    if "context" in rows[0]:
        return load_hotpot(path, corpus=corpus, split=split, environment=environment, name=NAME)
    pages = Path(corpus) if corpus is not None else corpus_beside(path)
    titles = {str(row.get("title", "")) for row in read_items(pages)}
    tasks = []
    for number, row in enumerate(rows):
        where = f"{path}, item {number}"
        subjects = _subjects(row.get("evidence", row.get("evidences", [])), where)
        tasks.append(
            question_task(
                f"twowiki-v1/{field(row, where, 'id', '_id')}",
                field(row, where, "question"),
                field(row, where, "answer"),
                where=where,
                corpus=pages,
                pages=subjects if titles.issuperset(subjects) else (),
                split=split,
                environment=environment,
                tags=[str(row[key]) for key in ("question_type", "type") if key in row],
            )
        )
    return question_set(NAME, path, tasks, split)


def corpus_beside(path: Path) -> Path:
    """Return the corpus in the folder of a file of questions. Raises: TaskError if there is none."""
    for name in ("corpus.json", "corpus.jsonl"):
        if (corpus := path.parent / name).is_file():
            return corpus
    raise TaskError(
        f"{path} contains questions, but no pages to search. Put corpus.json or corpus.jsonl beside it, or give "
        "corpus=."
    )


def _subjects(evidence: Any, where: str) -> list[str]:
    if not (isinstance(evidence, list) and all(isinstance(fact, list) and len(fact) == 3 for fact in evidence)):
        raise TaskError(f"{where}: the evidence must be triples, not {str(evidence)[:80]}.")
    return [str(fact[0]) for fact in evidence]
