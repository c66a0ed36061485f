"""A comparison as one HTML page without scripts or outside assets."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from agentgym.evaluation.report.html import STILL, Html, el, join
from agentgym.text import hundredfold, percent, points

MAX_SENTENCES = 3
"""With more pairs than this, only pairs with a significant gain are described in sentences above the tables."""


def page(result: Mapping[str, Any]) -> str:
    """Return the page for a result of `tournament` or `over_seeds`."""
    several = "thresholds" in result
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
    parts = _of_seeds(result) if several else _of_evaluations(result)
    body = el(
        "body",
        el("header", el("p", "agentgym", cls="brand"), el("h1", title), el("p", what, cls="fine"), cls="top"),
        el("main", parts, id="result"),
    )
    return str(join([Html("<!doctype html>\n"), el("html", head, body, lang="en")]))


def _of_evaluations(result: Mapping[str, Any]) -> list[Html]:
    arms, pairs = result["arms"], result["pairs"]
    notable = [pair for pair in pairs if pair["significant"] or len(pairs) <= MAX_SENTENCES]
    sections = [
        el("p", *(el("span", _in_words(pair), el("br")) for pair in notable), cls="under"),
        _table(
            "Success",
            ["Agent", "Success", "0 % to 100 %", "95 % interval", "Failed", "Turns"],
            [
                [
                    name,
                    _rate(a["success"]),
                    _bar(a["success"], 0.0),
                    _range(a["success"]),
                    str(a["failed"]),
                    f"{a['mean_turns']:.1f}",
                ]
                for name, a in arms.items()
            ],
        ),
        _table(
            "Pairs",
            ["Pair", "Gain, points", "-100 to 100", "95 % interval", "Better", "Worse", "Same", "p", "p, Holm", ""],
            [
                [
                    f"{p['first']} to {p['second']}",
                    points(p["gain"]["value"], 1),
                    _bar(p["gain"], -1.0),
                    _range(p["gain"]),
                    str(p["better"]),
                    str(p["worse"]),
                    str(p["same"]),
                    f"{p['p']:.2g}",
                    f"{p['p_holm']:.2g}",
                    "not chance" if p["significant"] else "could be chance",
                ]
                for p in pairs
            ],
        ),
    ]
    for key, name in (("pass_at", "pass@k"), ("pass_hat", "pass^k"), ("within_turns", "Within k turns")):
        ks = sorted({k for arm in arms.values() for k in arm[key]}, key=float)
        if len(ks) > (key != "within_turns"):
            rows = [
                [arm, *(_cell(curves[key][k]) if k in curves[key] else "" for k in ks)] for arm, curves in arms.items()
            ]
            sections.append(_table(name, ["Agent", *ks], rows))
    return sections


def _of_seeds(result: Mapping[str, Any]) -> list[Html]:
    arms = [
        [name, str(a["seeds"]), percent(a["mean"], 1), _rate(a["iqm"]), _range(a["iqm"])]
        for name, a in result["arms"].items()
    ]
    pairs = [
        [f"{p['first']} to {p['second']}", _rate(p["probability"]), _range(p["probability"])] for p in result["pairs"]
    ]
    profile = [[name, *(percent(share) for share in a["profile"][::4])] for name, a in result["arms"].items()]
    decisions = [[decision["first"], decision["verdict"], decision["second"]] for decision in result["adastop"]]
    return [
        _table("Over seeds", ["Agent", "Seeds", "Mean", "Interquartile mean", "95 % interval"], arms),
        _table("Chance that the second improves on the first", ["Pair", "Chance", "95 % interval"], pairs),
        _table(
            "Share of seeds and tasks that score above",
            ["Agent", *(f"{t:g}" for t in result["thresholds"][::4])],
            profile,
        ),
        *([_table("AdaStop", ["Agent", "is", "than"], decisions)] if decisions else []),
    ]


def _in_words(pair: Mapping[str, Any]) -> str:
    """Return a sentence on the result of a pair."""
    gain = pair["gain"]
    if not gain["n"]:
        return f"{pair['first']} and {pair['second']} have no task in common that was judged."
    chance = "chance does not explain it" if pair["significant"] else "chance could explain it"
    return (
        f"From {pair['first']} to {pair['second']}: {points(gain['value'], 1)} points ({_range(gain)}). Of "
        f"{pair['better'] + pair['worse'] + pair['same']} tasks, {pair['better']} solved more often, {pair['worse']} "
        f"less often; {chance}."
    )


def _cell(estimate: Mapping[str, Any]) -> Html:
    return join([f"{_rate(estimate)} ", el("small", _range(estimate)), " ", _bar(estimate, 0.0)])


def _bar(estimate: Mapping[str, Any], least: float) -> Html:
    """Draw an estimate with its interval between `least` and 1, and a line at 0; nothing without data."""
    if not estimate["n"]:
        return Html("")

    def x_of(value: float) -> str:
        return f"{2 + 116 * (min(max(value, least), 1.0) - least) / (1.0 - least):.1f}"

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
        aria_label=f"{hundredfold(estimate['value'], 1)}, {_range(estimate)}",
    )


def _table(title: str, head: list[str], rows: list[list[str]]) -> Html:
    body = [el("tr", el("th", row[0], scope="row"), [el("td", cell, cls="num") for cell in row[1:]]) for row in rows]
    heads = [el("th", name, scope="col") if name else el("td") for name in head]
    table = el("table", el("thead", el("tr", heads)), el("tbody", body), aria_label=title)
    return el("section", el("h2", title), el("div", table, cls="scroll", tabindex=0))


def _rate(estimate: Mapping[str, Any]) -> str:
    return percent(estimate["value"], 1) if estimate["n"] else "no data"


def _range(estimate: Mapping[str, Any]) -> str:
    return f"{hundredfold(estimate['low'], 1)} to {hundredfold(estimate['high'], 1)}" if estimate["n"] else ""
