"""The episodes of a report that stands alone: which are in it, and how their data gets into the page safely."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from agentgym.errors import AgentGymError
from agentgym.evaluation.report.assets import assets, script
from agentgym.evaluation.report.contents import Contents
from agentgym.evaluation.report.credit_lines import credit_of
from agentgym.evaluation.report.episode_data import episode_data, token_data
from agentgym.evaluation.report.html import Html, el
from agentgym.evaluation.report.rows import listed
from agentgym.evaluation.report.run_data import run_data
from agentgym.evaluation.report.vocabulary import Vocabulary, tokenizer_file
from agentgym.storage.reader import LedgerReader

MOST_ROWS = 5_000
"""Episodes a report lists; the ledger holds the rest."""
MOST_BYTES = 3 * 2**20
"""Of the episodes a report holds whole, as JSON."""
KEY = "run"


def embedded(contents: Contents, first: Sequence[str] = (), *, most_bytes: int = MOST_BYTES) -> dict[str, Any] | None:
    """What the page needs to show a run without a server; None for one that kept no episodes.

    Args:
        first: ids of episodes that go in before any other.
        most_bytes: of the episodes that go in whole. What no longer fits is listed alone.
    """
    path = contents.path / "ledger.sqlite"
    try:
        reader = LedgerReader(path)
    except AgentGymError:
        return None
    try:
        while reader.summarise(1.0):
            pass
        rows = reader.select(limit=MOST_ROWS, descending=True)[::-1]
        truncated = {row["id"] for row in reader.select({"only": "truncated"}, limit=MOST_ROWS, descending=True)}
        total = reader.count()
        held = _whole(contents, reader, _order(rows, first), most_bytes)
    except AgentGymError as error:
        contents.notes.append(f"ledger.sqlite: {error}")
        return None
    finally:
        reader.close()
    table = _table([row | {"truncated": row["id"] in truncated} for row in listed(rows)])
    run = run_data(contents) | {"key": KEY, "updated": contents.updated, "live": False, "version": ""}
    return {"run": run, "left_out": max(0, total - len(rows)), **table, **held}


def _table(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Rows without the names in each: a report may list thousands."""
    columns = list(rows[0]) if rows else []
    return {"columns": columns, "rows": [[_short(row[name]) for name in columns] for row in rows]}


def _short(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def data_element(data: Mapping[str, Any]) -> Html:
    """The data as an element that no content can end: every `<`, `>` and `&` is written as its code."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Html(f'<script type="application/json" id="data">{text}</script>')


def page_elements(data: Mapping[str, Any]) -> tuple[Html, Html]:
    """What the viewer's page adds to a report: for the head, and for the end of the body."""
    style = assets()["viewer.css"].decode("utf-8")
    head = el("style", Html(style), id="app-style", media="not all")
    return head, Html(
        el("div", id="app", hidden=True) + data_element(data) + f'<script type="module">{script()}</script>'
    )


def _order(rows: Sequence[Mapping[str, Any]], first: Iterable[str]) -> list[str]:
    """The asked ones, then whole groups in turn: of every phase, evaluations first, the latest training step first."""
    by_phase: dict[str, dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in reversed(rows):
        phase = row["run"].rstrip("0123456789").rstrip("-")
        by_phase[phase][row["run"], row["task"]].append(row["id"])
    queues = [list(groups.values()) for groups in by_phase.values()]
    in_turn = (group for groups in zip_longest(*queues, fillvalue=[]) for group in groups)
    return list(dict.fromkeys([*first, *(name for group in in_turn for name in group)]))


def _whole(contents: Contents, reader: LedgerReader, names: Sequence[str], most_bytes: int) -> dict[str, Any]:
    """Episodes and tokens by id as long as they fit, and the pieces their tokens read as."""
    episodes: dict[str, Any] = {}
    tokens: dict[str, Any] = {}
    room, refused = most_bytes, 0
    credit = credit_of(contents.path / "credit.jsonl", names)
    for name in names:
        try:
            trajectory = reader.load(name)
        except AgentGymError:
            continue
        episode, spans = episode_data(trajectory, credit.get(name)), token_data(trajectory)
        size = len(json.dumps([episode, spans]))
        if size > room:
            refused += 1
            if refused > 20:  # a few large ones may be followed by small ones, but not for ever
                break
            continue
        room -= size
        episodes[name], tokens[name] = episode, spans
    groups = {name.rpartition("#")[0] for name in episodes}
    given = {name: list(found.advantages) for name, found in credit.items() if name.rpartition("#")[0] in groups}
    words = _vocabulary(contents)
    pieces = words.of(i for spans in tokens.values() for span in spans for i in span["ids"])
    return {"episodes": episodes, "tokens": tokens, "pieces": pieces, "credit": given}


def _vocabulary(contents: Contents) -> Vocabulary:
    policy = contents.setting("policy", "path")
    file = tokenizer_file(contents.path, policy if isinstance(policy, str) else None)
    return Vocabulary.load(file) if file is not None else Vocabulary()
