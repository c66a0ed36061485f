"""The data inside a report file: the run, the list of its episodes, and as many full episodes as fit."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from itertools import zip_longest
from typing import Any

from agentgym.errors import AgentGymError
from agentgym.evaluation.report.contents import Contents
from agentgym.evaluation.report.credit_lines import read_credit
from agentgym.evaluation.report.episode_data import episode_data, listed, token_data
from agentgym.evaluation.report.html import Html
from agentgym.evaluation.report.run_data import run_data
from agentgym.evaluation.report.vocabulary import Vocabulary, tokenizer_file
from agentgym.storage.reader import LedgerReader
from agentgym.text import visible

MAX_ROWS = 5_000
"""The maximum number of episodes that a report lists; the ledger holds the rest."""
MAX_BYTES = 3 * 2**20
"""The maximum total size of the full episodes in a report, as JSON."""
MAX_REFUSED = 20
"""After this many episodes that do not fit, no more are tried; a smaller one may follow a large one."""
KEY = "run"


def embedded(contents: Contents, *, most_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Return the data that the page needs to show a run without a server.

    Args:
        most_bytes: total size of the episodes included in full, most interesting first. Others are only listed.
    """
    run = run_data(contents)
    first = [name for pair in run["to_read"] for name in pair["ids"]]
    episodes = _episodes(contents, first, most_bytes)
    run["to_read"] = [pair for pair in run["to_read"] if all(name in episodes["episodes"] for name in pair["ids"])]
    notes = {name: note for name, note in contents.user_notes().items() if not name or name in episodes["episodes"]}
    run["notes"] = [visible(note) for note in contents.notes]  # includes notes from reading the ledger above
    return {
        "run": run | {"key": KEY, "updated": contents.updated, "live": False, "version": ""},
        "notes": notes,
        **episodes,
    }


def _episodes(contents: Contents, first: Sequence[str], most_bytes: int) -> dict[str, Any]:
    """Return the rows of the list, and the full episodes that fit; all empty without a readable ledger."""
    nothing: dict[str, Any] = {name: {} for name in ("episodes", "tools", "tokens", "pieces", "credit")}
    nothing |= {"columns": [], "rows": [], "left_out": 0}
    path = contents.path / "ledger.sqlite"
    if not path.is_file():
        return nothing
    try:
        with closing(LedgerReader(path)) as reader:
            while reader.summarise(1.0):
                pass
            rows = reader.select(limit=MAX_ROWS, descending=True)[::-1]
            truncated = {row["id"] for row in reader.select({"only": "truncated"}, limit=MAX_ROWS, descending=True)}
            total = reader.count()
            embedded = _full_episodes(contents, reader, _order(rows, first), most_bytes)
    except AgentGymError as error:
        contents.notes.append(f"ledger.sqlite: {error}")
        return nothing
    table = _table([row | {"truncated": row["id"] in truncated} for row in listed(rows)])
    return {"left_out": max(0, total - len(rows)), **table, **embedded}


def _table(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return rows as value lists with shared column names, since a report may list thousands."""
    columns = list(rows[0]) if rows else []
    return {"columns": columns, "rows": [[_short(row[name]) for name in columns] for row in rows]}


def _short(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def data_element(data: Mapping[str, Any]) -> Html:
    """Return the data as an element that no content can close: every `<`, `>` and `&` is escaped."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Html(f'<script type="application/json" id="data">{text}</script>')


def _order(rows: Sequence[Mapping[str, Any]], first: Iterable[str]) -> list[str]:
    """Return ids in order of inclusion: `first`, then whole groups of every phase in turn, latest first."""
    by_phase: dict[str, dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    for row in reversed(rows):
        phase = row["run"].rstrip("0123456789").rstrip("-")
        by_phase[phase][row["run"], row["task"]].append(row["id"])
    queues = [list(groups.values()) for groups in by_phase.values()]
    in_turn = (group for groups in zip_longest(*queues, fillvalue=[]) for group in groups)
    return list(dict.fromkeys([*first, *(name for group in in_turn for name in group)]))


def _full_episodes(contents: Contents, reader: LedgerReader, names: Sequence[str], most_bytes: int) -> dict[str, Any]:
    """Return episodes and tokens by id as long as they fit, and the texts of their tokens."""
    episodes: dict[str, Any] = {}
    tokens: dict[str, Any] = {}
    tools: dict[str, int] = {}
    space, refused = most_bytes, 0
    credit = read_credit(contents.path / "credit.jsonl", names)
    for name in names:
        try:
            trajectory = reader.load(name)
        except AgentGymError:
            continue
        episode, spans = episode_data(trajectory, credit.get(name)), token_data(trajectory)
        schemas = json.dumps(episode.pop("tools"))  # the same in most episodes, so a report holds them once
        size = len(json.dumps([episode, spans])) + (0 if schemas in tools else len(schemas))
        if size > space:
            refused += 1
            if refused > MAX_REFUSED:
                break
            continue
        space -= size
        episode["tools"] = tools.setdefault(schemas, len(tools))
        episodes[name], tokens[name] = episode, spans
    groups = {name.rpartition("#")[0] for name in episodes}
    advantages = {name: list(given.advantages) for name, given in credit.items() if name.rpartition("#")[0] in groups}
    pieces = _vocabulary(contents).of(i for spans in tokens.values() for span in spans for i in span["ids"])
    every_tool = [json.loads(schemas) for schemas in tools]
    return {"episodes": episodes, "tools": every_tool, "tokens": tokens, "pieces": pieces, "credit": advantages}


def _vocabulary(contents: Contents) -> Vocabulary:
    policy = contents.recipe_value("policy", "path")
    file = tokenizer_file(contents.path, policy if isinstance(policy, str) else None)
    return Vocabulary.load(file) if file is not None else Vocabulary()
