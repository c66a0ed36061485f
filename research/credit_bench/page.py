"""The credit benchmark as a page: heat maps over estimators and lengths, and curves for some estimators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path

from agentgym.errors import AgentGymError
from agentgym.evaluation.report.html import STILL, Html, el, timestamp
from research.credit_bench import BenchmarkRow, BootstrapInterval
from research.svg import Series, line_chart

DRAWN = ("turn_gae", "return_to_go", "gigpo", "grpo")


def write_page(rows: Sequence[BenchmarkRow], path: Path) -> Path:
    """Write the page, completely or not at all. Raises: AgentGymError if the file cannot be written."""
    partial = path.with_name(path.name + ".partial")
    try:
        partial.write_text(render(rows), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise AgentGymError(
            f"Cannot write {path}: {error.strerror}. Free some space, or choose another --out."
        ) from error
    return path


def render(rows: Sequence[BenchmarkRow]) -> Html:
    """Return the whole page: one file, no script, no external resources."""
    style = (files("agentgym.evaluation.report") / "style.css").read_text(encoding="utf-8")
    measured = [row for row in rows if row.measures is not None and row.learning is not None]
    most = max((row.learning.steps.value for row in measured if row.learning), default=1.0)
    return Html(
        "<!doctype html>"
        + el(
            "html",
            el(
                "head",
                el("meta", charset="utf-8"),
                el("meta", name_="viewport", content="width=device-width, initial-scale=1"),
                el("meta", http_equiv="Content-Security-Policy", content=STILL),
                el("meta", name_="color-scheme", content="light dark"),
                el("title", "agentgym dev credit-bench"),
                el("style", Html(style)),
            ),
            el(
                "body",
                el(
                    "header",
                    el("p", "agentgym", cls="brand"),
                    el("h1", "Which turn decided?"),
                    el("p", timestamp(), cls="fine"),
                    cls="top",
                ),
                el(
                    "p",
                    "Tasks of K turns in which exactly one turn decides how they end. The true credit of every "
                    "turn is known; what an estimator says is compared with it.",
                    cls="under",
                ),
                el("div", _charts(measured), cls="charts"),
                el("h2", "Error of the credit"),
                _heat(
                    measured,
                    lambda row: row.measures.error if row.measures else None,
                    1.0,
                    "0: the truth up to a factor. 1: nothing of it. With 95 % intervals over groups.",
                ),
                el("h2", "Updates until learnt"),
                _heat(
                    measured,
                    lambda row: row.learning.steps if row.learning else None,
                    most,
                    "Median over seeds until the right action has chance 0.9, with its 95 % interval.",
                    digits=0,
                ),
                el("h2", "Signs at the decisive turn"),
                _heat(
                    measured,
                    lambda row: row.measures.sign if row.measures else None,
                    1.0,
                    "Share of trajectories whose advantage there has the true sign.",
                    good_high=True,
                ),
            ),
            lang="en",
        )
    )


def _charts(rows: Sequence[BenchmarkRow]) -> list[Html]:
    names = [name for name in DRAWN if any(row.name == name for row in rows)]
    names = names or list(dict.fromkeys(row.name for row in rows))[:4]

    def lines(figure: Callable[[BenchmarkRow], BootstrapInterval | None]) -> list[Series]:
        series = []
        for colour, name in enumerate(names, 1):
            figures = [(float(row.turns), figure(row)) for row in rows if row.name == name]
            points = [(x, f.value) for x, f in figures if f is not None]
            band = [(x, f.low, f.high) for x, f in figures if f is not None]
            series.append(Series(name, points, colour, band=band, dots=True))
        return series

    return [
        line_chart(
            "Error of the credit",
            lines(lambda row: row.measures.error if row.measures else None),
            x_label="turns",
            note="0 is the truth, 1 nothing of it",
        ),
        line_chart(
            "Updates until learnt",
            lines(lambda row: row.learning.steps if row.learning else None),
            x_label="turns",
            note="median over seeds",
        ),
    ]


def _heat(
    rows: Sequence[BenchmarkRow],
    figure: Callable[[BenchmarkRow], BootstrapInterval | None],
    most: float,
    caption: str,
    *,
    digits: int = 2,
    good_high: bool = False,
) -> Html:
    """Return a table whose cells are redder the worse they are."""
    counts = sorted({row.turns for row in rows})
    by_name = {(row.name, row.turns): figure(row) for row in rows}
    bias = {row.name: row.bias for row in rows}
    names = sorted(bias, key=lambda name: _mean([by_name.get((name, k)) for k in counts]), reverse=good_high)
    body = []
    for name in names:
        cells = [_cell(by_name.get((name, k)), most, digits, good_high) for k in counts]
        body.append(el("tr", el("th", name, " ", el("small", bias[name]), scope="row"), cells))
    head = el("tr", el("th", "Estimator", scope="col"), [el("th", f"K = {k}", scope="col") for k in counts])
    table = el("table", el("caption", caption), el("thead", head), el("tbody", body))
    return el("div", table, cls="scroll")


def _cell(figure: BootstrapInterval | None, most: float, digits: int, good_high: bool) -> Html:
    if figure is None:
        return el("td", "-")
    share = min(max(figure.value / most, 0.0), 1.0) if most > 0 else 0.0
    bad = 1 - share if good_high else share
    style = f"padding-left: .6rem; background: color-mix(in srgb, var(--down-bg) {100 * bad:.0f}%, var(--up-bg))"
    interval = f"{figure.low:.{digits}f} to {figure.high:.{digits}f}"
    return el("td", f"{figure.value:.{digits}f} ", el("small", interval), style=style, cls="num")


def _mean(figures: Sequence[BootstrapInterval | None]) -> float:
    known = [figure.value for figure in figures if figure is not None]
    return sum(known) / len(known) if known else 0.0
