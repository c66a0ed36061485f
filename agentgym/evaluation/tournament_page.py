"""A comparison as one HTML page without scripts or outside assets."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from agentgym.evaluation.report.html import STILL, Child, Html, el, join
from agentgym.evaluation.tournament_tables import Cell, ComparisonTable, Drawn, EpisodeId, interval, tables
from agentgym.text import hundredfold, points

MAX_SENTENCES = 3
"""With more pairs than this, only pairs with a significant gain are described in sentences above the tables."""


def page(result: Mapping[str, Any], reports: Mapping[str, str] | None = None) -> str:
    """Return the page for a result of `tournament` or `over_seeds`.

    `reports`: addresses of the agents' report pages by agent, to which their episodes are linked.
    """
    what = f"{result['tasks']} {result['split']} tasks of {result['task_set']}"
    title = f"{' against '.join(result['arms'])}"
    style = (files("agentgym.evaluation.report") / "style.css").read_text(encoding="utf-8")
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=STILL),
        el("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name_="color-scheme", content="light dark"),
        el("title", title),
        el("style", Html(style)),
    )
    pairs = [] if "thresholds" in result else result["pairs"]
    notable = [pair for pair in pairs if pair["significant"] or len(pairs) <= MAX_SENTENCES]
    sentences = el("p", *(el("span", _in_words(pair), el("br")) for pair in notable), cls="under") if pairs else None
    body = el(
        "body",
        el("header", el("p", "agentgym", cls="brand"), el("h1", title), el("p", what, cls="fine"), cls="top"),
        el("main", sentences, [_table(table, reports or {}) for table in tables(result)], id="result"),
    )
    return str(join([Html("<!doctype html>\n"), el("html", head, body, lang="en")]))


def _in_words(pair: Mapping[str, Any]) -> str:
    """Return a sentence on the result of a pair."""
    gain = pair["gain"]
    if not gain["n"]:
        return f"{pair['first']} and {pair['second']} have no task in common that was judged."
    chance = "chance does not explain it" if pair["significant"] else "chance could explain it"
    return (
        f"From {pair['first']} to {pair['second']}: {points(gain['value'], 1)} points ({interval(gain)}). Of "
        f"{pair['better'] + pair['worse'] + pair['same']} tasks, {pair['better']} solved more often, {pair['worse']} "
        f"less often; {chance}."
    )


def _cell(cell: Cell, reports: Mapping[str, str]) -> Child:
    if isinstance(cell, Drawn):
        return [f"{cell.words} ", _drawing(cell)]
    if isinstance(cell, EpisodeId):
        report = reports.get(cell.agent)
        return el("a", cell.id, href=f"{report}#/run/run/episode/{quote(cell.id, safe='')}") if report else cell.id
    return cell


def _drawing(cell: Drawn) -> Html:
    """Draw an estimate with its interval from `least` to `most`, and a line at 0; nothing without data."""
    estimate, least, most = cell.estimate, cell.least, cell.most
    if not estimate["n"]:
        return Html("")

    def x_of(value: float) -> str:
        return f"{2 + 116 * (min(max(value, least), most) - least) / (most - least):.1f}"

    low, high, value = (x_of(estimate[name]) for name in ("low", "high", "value"))
    return el(
        "svg",
        el("line", x1="2", x2="118", y1="7", y2="7", cls="grid"),
        el("line", x1=x_of(0.0), x2=x_of(0.0), y1="1", y2="13", cls="grid"),
        el("line", x1=low, x2=high, y1="7", y2="7", cls="line c1", opacity="0.5"),
        el("circle", cx=value, cy="7", r="4", fill="currentColor", cls="c1"),
        viewBox="0 0 120 14",
        width="120",
        height="14",
        role="img",
        aria_label=f"{hundredfold(estimate['value'], 1)}, {interval(estimate)}",
    )


def _table(table: ComparisonTable, reports: Mapping[str, str]) -> Html:
    body = [
        el(
            "tr",
            el("th", _cell(row[0], reports), scope="row"),
            [el("td", _cell(cell, reports), cls="num") for cell in row[1:]],
        )
        for row in table.rows
    ]
    heads = [el("th", name, scope="col") if name else el("td") for name in table.head]
    html_table = el("table", el("thead", el("tr", heads)), el("tbody", body), aria_label=table.title)
    return el("section", el("h2", table.title), el("div", html_table, cls="scroll", tabindex=0))
