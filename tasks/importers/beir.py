"""Read a BEIR folder (corpus.jsonl, queries.jsonl, qrels/) that the user has; no data is part of this package."""

from __future__ import annotations

import json
from pathlib import Path

from agentgym import Split, TaskError, TaskSet

from .items import field, read_items
from .question_files import ENVIRONMENT, question_set, question_task


def load_beir(
    path: str | Path,
    *,
    qrels: str = "test",
    split: Split = "held_out",
    environment: str = ENVIRONMENT,
) -> TaskSet:
    """The queries of a BEIR folder (Thakur et al. 2021) as tasks: find a relevant document, and answer with its title.

    The title of every document judged relevant is a right answer, and all of these are the gold pages. The search
    environment adds the id in brackets to the title of a document that has none, or that of an earlier document; so do
    the answers.

    Args:
        path: the folder. `qrels`: the name of a file in qrels/.
        split, environment: as in `load_hotpot`.
    Raises: TaskError naming the file, the line and its fault.
    """
    path = Path(path)
    relevant = _relevant(path / "qrels" / f"{qrels}.tsv")
    titles = _titles(path / "corpus.jsonl", {document for documents in relevant.values() for document in documents})
    tasks = []
    for number, row in enumerate(read_items(path / "queries.jsonl")):
        where = f"{path / 'queries.jsonl'}, item {number}"
        name = str(field(row, where, "_id"))
        if name not in relevant:
            continue
        if missing := [document for document in relevant[name] if document not in titles]:
            raise TaskError(f"{where}: the corpus has no document {missing[0]!r}, but qrels/{qrels}.tsv refers to it.")
        gold = [titles[document] for document in relevant[name]]
        prompt = f"Find a page about this, and answer with its title: {field(row, where, 'text')}"
        tasks.append(
            question_task(
                f"{path.resolve().name}/{name}",
                prompt,
                gold,
                where=where,
                corpus=path,
                pages=gold,
                split=split,
                environment=environment,
            )
        )
    if not tasks:
        raise TaskError(f"{path}: no query of queries.jsonl has a relevant document in qrels/{qrels}.tsv.")
    return question_set("search/beir-v1", path, tasks, split)


def _relevant(path: Path) -> dict[str, list[str]]:
    """Return the documents judged above 0, by query."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise TaskError(f"Cannot read {path}: {error.strerror}. A BEIR folder has qrels/test.tsv.") from error
    except UnicodeDecodeError as error:
        raise TaskError(f"{path} is not UTF-8 text: {error}. Save it as UTF-8.") from error
    documents_by_query: dict[str, list[str]] = {}
    for number, line in enumerate(lines, start=1):
        parts = line.split("\t")
        if number == 1 and parts[-1].strip() == "score":
            continue  # the heading
        try:
            query, document, score = parts
            grade = int(score)
        except ValueError as error:
            raise TaskError(
                f"{path}, line {number}: expected query, document and score, found {line[:60]!r}."
            ) from error
        if grade > 0:
            documents_by_query.setdefault(query, []).append(document)
    return documents_by_query


def _titles(path: Path, documents: set[str]) -> dict[str, str]:
    """Return the titles of these documents in the search environment, by document id."""
    titles: dict[str, str] = {}
    taken: set[str] = set()
    try:
        with path.open(encoding="utf-8-sig") as file:
            for line in file:
                row = json.loads(line)
                name, title = str(row["_id"]), " ".join(str(row.get("title", "")).split())
                if not title or title.casefold() in taken:
                    title = f"{title} ({name})".strip()
                taken.add(title.casefold())
                if name in documents:
                    titles[name] = title
    except OSError as error:
        raise TaskError(f"Cannot read {path}: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise TaskError(f"{path}: each line must be one JSON object with _id: {error!r}.") from error
    return titles
