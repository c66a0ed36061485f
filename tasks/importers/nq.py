"""Read Natural Questions and files of its shape from a file that the user has; no data is part of this package."""

from __future__ import annotations

from pathlib import Path

from agentgym import Split, TaskSet

from .items import field, read_items
from .question_files import ENVIRONMENT, question_set, question_task
from .twowiki import corpus_beside

ANSWERS = ("golden_answers", "answers", "answer", "short_answers")
"""Field names in the known packagings: Search-R1's and FlashRAG's, DPR's, NQ-open's."""


def load_nq(
    path: str | Path,
    *,
    corpus: str | Path | None = None,
    split: Split = "held_out",
    environment: str = ENVIRONMENT,
    name: str = "search/nq-v1",
) -> TaskSet:
    """Questions with lists of right answers, as tasks of a search environment.

    Reads NQ-open (Lee et al. 2019), TriviaQA, PopQA and others in the same form. No gold pages are known, so only
    the answer is judged.

    Args:
        path: one JSON object per line, or a JSON array.
        corpus: the pages to search; by default `corpus.json` or `corpus.jsonl` beside the questions.
        split, environment, name: as in `load_hotpot`.
    Raises: TaskError naming the file, the item and its fault.
    """
    path = Path(path)
    pages = Path(corpus) if corpus is not None else corpus_beside(path)
    tasks = []
    for number, row in enumerate(read_items(path)):
        where = f"{path}, item {number}"
        answers = field(row, where, *ANSWERS)
        prompt = field(row, where, "question", "query")
        tasks.append(
            question_task(
                f"{name.split('/')[-1]}/{row.get('id', number)}",
                prompt,
                answers,
                where=where,
                corpus=pages,
                split=split,
                environment=environment,
            )
        )
    return question_set(name, path, tasks, split)
