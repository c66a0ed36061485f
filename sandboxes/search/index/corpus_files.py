"""Reads corpora from files: pages in JSON lines, BEIR folders, and sets of questions with their own paragraphs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agentgym import TaskError

from .page_store import Page

IDS, TITLES, TEXTS = ("id", "_id", "docid"), ("title",), ("text", "contents", "paragraph_text", "passage")
"""Names of a page's fields in common corpora: BEIR's, Pyserini's, MuSiQue's, DPR's."""


def corpus_file(path: Path) -> Path:
    """Return the file of a corpus that is a file or a BEIR folder. Raises: TaskError if there is none."""
    corpus = path / "corpus.jsonl" if path.is_dir() else path
    if not corpus.is_file():
        raise TaskError(f"There is no corpus at {path}. Give a .jsonl or .json file, or a folder with corpus.jsonl.")
    return corpus


def pages_of_file(path: Path) -> Iterator[Page]:
    """Yield the pages of a file, each title once.

    Raises: TaskError naming the file, the place and the fault.
    """
    try:
        if path.suffix == ".json":
            yield from _once(pages_of_json(json.loads(path.read_text(encoding="utf-8")), str(path)))
            return
        with path.open("rb") as file:
            yield from pages_of_lines(file, str(path))
    except OSError as error:
        raise TaskError(f"Cannot read the corpus {path}: {error.strerror}.") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise TaskError(f"{path} is not JSON in UTF-8: {error}.") from error


def pages_of_lines(lines: Iterable[bytes], where: str) -> Iterator[Page]:
    """Yield the pages of JSON lines: per line one page, or one question with its own paragraphs (MuSiQue)."""
    titles: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise TaskError(f"{where}, line {number}: not valid JSON: {error}.") from error
        if isinstance(row, dict) and isinstance(row.get("paragraphs"), list):
            yield from _once(_rows(row["paragraphs"], f"{where}, line {number}"), titles)
        else:
            yield _page(row, f"{where}, line {number}", str(number))


def pages_of_json(data: Any, where: str) -> Iterator[Page]:
    """Yield the pages of one JSON document.

    Accepted forms: a list of pages; a mapping of titles to texts or sentences; HotpotQA's and 2Wiki's questions with
    their `context`; MuSiQue's with their `paragraphs`; SQuAD's articles, one page a paragraph, linked in order.
    """
    if isinstance(data, Mapping) and isinstance(data.get("data"), list):
        yield from _squad(data["data"], where)
    elif isinstance(data, Mapping):
        for title, text in data.items():
            yield Page(title, title, _joined(text, f"{where}, {title!r}"))
    elif isinstance(data, list):
        for index, row in enumerate(data):
            at = f"{where}, item {index}"
            if isinstance(row, Mapping) and "context" in row:
                for pair in _contexts(row["context"]):
                    if not (isinstance(pair, (list, tuple)) and len(pair) == 2):
                        raise TaskError(f"{at}: a context must be [title, sentences], not {str(pair)[:60]!r}.")
                    yield Page(str(pair[0]), str(pair[0]), _joined(pair[1], at))
            elif isinstance(row, Mapping) and isinstance(row.get("paragraphs"), list):
                yield from _rows(row["paragraphs"], at)
            else:
                yield _page(row, at, str(index))
    else:
        raise TaskError(f"{where}: expected a list or an object of pages, found {type(data).__name__}.")


def _contexts(context: Any) -> Iterable[Any]:
    """Return HotpotQA's contexts as pairs; some packagings have one list of titles and one of sentences."""
    if isinstance(context, Mapping):
        return zip(context.get("title", ()), context.get("sentences", context.get("content", ())), strict=False)
    return context if isinstance(context, list) else ()


def _rows(rows: list[Any], where: str) -> Iterator[Page]:
    for index, row in enumerate(rows):
        page = _page(row, f"{where}, paragraph {index}", "")
        yield Page(page.title, page.title, page.text)


def _page(row: Any, where: str, number: str) -> Page:
    if not isinstance(row, Mapping):
        raise TaskError(f"{where}: expected a page as a JSON object, found {type(row).__name__}.")
    text = next((row[name] for name in TEXTS if name in row), None)
    if not isinstance(text, str):
        raise TaskError(f"{where} has no text. Put it into one of the fields {', '.join(TEXTS)}.")
    title = next((row[name] for name in TITLES if isinstance(row.get(name), str)), None)
    if title is None:  # Search-R1 and FlashRAG write "title"\ntext into one field
        first, _, rest = text.partition("\n")
        title, text = (first.strip().strip('"'), rest) if rest and first.startswith('"') else ("", text)
    name = next((str(row[key]) for key in IDS if isinstance(row.get(key), (str, int))), number)
    links = row.get("links", ())
    if not (isinstance(links, (list, tuple)) and all(isinstance(link, str) for link in links)):
        raise TaskError(f"{where}: the links must be a list of titles, not {str(links)[:60]!r}.")
    return Page(name, title, text, tuple(links))


def _squad(articles: list[Any], where: str) -> Iterator[Page]:
    for index, article in enumerate(articles):
        if not (isinstance(article, Mapping) and isinstance(article.get("paragraphs"), list)):
            raise TaskError(f"{where}, article {index}: there are no paragraphs.")
        total = len(article["paragraphs"])
        title = squad_title(article, index)
        for number, paragraph in enumerate(article["paragraphs"], start=1):
            beside = tuple(squad_page(title, n) for n in (number - 1, number + 1) if 1 <= n <= total)
            name = squad_page(title, number)
            yield Page(name, name, str(paragraph.get("context", "")), beside)


def squad_title(article: Mapping[str, Any], index: int) -> str:
    """Return an article's title, or a name with its number, because XQuAD's articles have no title."""
    return str(article.get("title") or f"Article {index + 1}").replace("_", " ")


def squad_page(title: str, number: int) -> str:
    """Return the title of the page that holds one paragraph of an article: paragraph `number`, counted from 1."""
    return f"{title}, part {number}"


def _joined(text: Any, where: str) -> str:
    if isinstance(text, str):
        return text
    if isinstance(text, (list, tuple)) and all(isinstance(sentence, str) for sentence in text):
        return " ".join(sentence.strip() for sentence in text)
    raise TaskError(f"{where}: the text must be text or a list of sentences, not {str(text)[:60]!r}.")


def _once(pages: Iterable[Page], titles: dict[str, str] | None = None) -> Iterator[Page]:
    """Yield a page only once if several questions share it; another text under the same title is another page."""
    texts: dict[str, str] = {} if titles is None else titles
    for page in pages:
        name, turn = page.title, 1
        while name in texts and texts[name] != page.text:
            turn += 1
            name = f"{page.title} ({turn})"
        if name not in texts:
            texts[name] = page.text
            yield Page(name, name, page.text, page.links) if page.id == page.title else page
