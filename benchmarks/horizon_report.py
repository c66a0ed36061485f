"""Tables and the page of `benchmarks/horizon.py`, from results.jsonl and predictions.json."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from horizon_cells import ARMS, TARGET, UNSEEN_HORIZONS
from horizon_plots import by_horizon, curves, heat_map, pictures
from horizon_ratios import (
    Group,
    Ratio,
    Row,
    beside_of,
    by_cell,
    cpu_s_of,
    episodes_of,
    mostly_solved,
    ratio,
    trained_of,
)
from scipy import stats

from agentgym.evaluation.statistics.permutation import holm

REFERENCES = ("outcome", "flattened")
STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto}td,th{padding:.25rem .6rem;text-align:right;
border-bottom:1px solid #8884;white-space:nowrap}td:first-child,th:first-child{text-align:left}
svg{max-width:100%;height:auto}
@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}svg{background:#fff}}"""


def table(rows: Sequence[Row], predictions: Mapping[str, Any]) -> list[list[str]]:
    """Return one line for each group and arm.

    Ratios of episodes are tested, with a correction for their number; ratios of processor time are only descriptive.
    """
    cells = by_cell(rows)
    compared: list[tuple[list[str], dict[str, Ratio | None], Ratio | None]] = []
    for (group, arm), own in sorted(cells.items(), key=lambda item: (item[0][0], list(ARMS).index(item[0][1]))):
        others = () if arm == "outcome" else [name for name in REFERENCES if name != arm]
        ratios = {name: ratio(own, cells.get((group, name), [])) for name in others}
        time = None if arm == "outcome" else ratio(own, cells.get((group, "outcome"), []), cpu_s_of)
        compared.append((_measured(group, arm, own, predictions), ratios, time))
    tests = [other for _, ratios, _ in compared for other in ratios.values() if other and not math.isnan(other.p)]
    corrected = dict(zip(map(id, tests), holm([test.p for test in tests]) if tests else (), strict=True))
    lines = []
    for line, ratios, time in compared:
        for name in REFERENCES:
            against = ratios.get(name)
            star = "*" if against and corrected.get(id(against), 1.0) <= 0.05 else ""
            line.append(f"{against.text}{star}" if against else "")
        lines.append([*line, time.text if time else ""])
    return lines


def _measured(group: Group, arm: str, own: Sequence[Row], predictions: Mapping[str, Any]) -> list[str]:
    """Return the part of a table's line that needs no comparison."""
    environment, horizon, feedback = group
    solved = sum(row["episodes_to_target"] is not None for row in own)
    known = predictions.get(f"{environment}-{horizon}", {}).get("cells", {})
    foreseen = known.get(f"{'outcome' if arm == 'outcome' else feedback}-{arm}", {})
    beside = median(beside_of(row) for row in own)
    return [
        environment,
        str(horizon),
        feedback,
        arm,
        f"{solved} of {len(own)}",
        f"{'' if mostly_solved(own) else '>'}{median(trained_of(row) for row in own):,.0f}",
        f"{beside:,.0f}" if beside else "",
        " ".join(f"{'' if row['episodes_to_target'] else '>'}{episodes_of(row):.0f}" for row in own),
        *(f"{foreseen[skills]['episodes']:,.0f}" if foreseen else "-" for skills in ("shared", "own")),
        f"{np.mean([row['held_out'] for row in own]):.2f}",
        _unseen_horizons(own),
        f"{np.mean([row['cpu_s'] for row in own]):.0f}",
    ]


def _unseen_horizons(rows: Sequence[Row]) -> str:
    """Return the mean success at each unseen horizon, over the runs in which it was measured."""
    measured = [row["unseen_horizons"] for row in rows if row.get("unseen_horizons")]
    return " ".join(f"{np.mean([m[str(h)] for m in measured]):.2f}" for h in UNSEEN_HORIZONS) if measured else "-"


COLUMNS = [
    "environment",
    "horizon",
    "feedback",
    "estimator",
    "seeds at 80 %",
    "episodes, median",
    "beside",
    "by seed",
    "predicted, shared skill",
    "predicted, own skills",
    "held out",
    f"unseen horizons {', '.join(map(str, UNSEEN_HORIZONS))}",
    "CPU-s",
    "x outcome",
    "x flattened",
    "time x outcome",
]
ONLY_IN_FULL = ("by seed", "predicted, own skills", "unseen")
"""Prefixes of the columns that docs/credit.md leaves out."""


def rank_correlations(rows: Sequence[Row], predictions: Mapping[str, Any]) -> dict[str, tuple[float, float, int]]:
    """Spearman's correlation of predicted and measured episodes over all cells, its p-value and the cells, by skill."""
    pairs: dict[str, list[tuple[float, float]]] = {"shared": [], "own": []}
    for (group, arm), own in by_cell(rows).items():
        environment, horizon, feedback = group
        if arm == "outcome" and feedback != "outcome":
            continue
        foreseen = predictions.get(f"{environment}-{horizon}", {}).get("cells", {}).get(f"{feedback}-{arm}")
        for skills, values in pairs.items() if foreseen else ():
            values.append((foreseen[skills]["episodes"], median(trained_of(row) for row in own)))
    correlations = {}
    for skills, values in pairs.items():
        if len(values) > 2:
            result = stats.spearmanr(*zip(*values, strict=True))
            correlations[skills] = (float(result.statistic), float(result.pvalue), len(values))
    return correlations


def write_report(rows: Sequence[Row], out: Path) -> str:
    """Write table.md, page.md, report.html and the pictures of docs/credit.md. Returns: their paths."""
    if not rows:
        return f"Nothing has been run yet in {out}."
    file = out / "predictions.json"
    predictions: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    lines = table(rows, predictions)
    (out / "table.md").write_text(_markdown([COLUMNS, *lines]), encoding="utf-8")
    (out / "page.md").write_text(_markdown(_shortened(lines)), encoding="utf-8")
    for name, picture in pictures(rows).items():
        (out / f"{name}.svg").write_text(picture, encoding="utf-8")
    correlations = rank_correlations(rows, predictions)
    notes = [
        f"Rank correlation of predicted ({skills}) and measured episodes: {value:.2f} (p = {p:.2g}, {count} cells)."
        for skills, (value, p, count) in correlations.items()
    ]
    (out / "report.html").write_text(_page(rows, lines, notes), encoding="utf-8")
    return "\n".join([*notes, f"{len(rows)} runs. Tables: {out / 'table.md'}. Page: {out / 'report.html'}"])


def _markdown(lines: Sequence[Sequence[str]]) -> str:
    head, *body = lines
    return "".join("| " + " | ".join(line) + " |\n" for line in [head, ["---"] * len(head), *body])


def _shortened(lines: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return the table of docs/credit.md, with `outcome` only under its own feedback."""
    columns = [index for index, name in enumerate(COLUMNS) if not name.startswith(ONLY_IN_FULL)]
    short = [[line[index] for index in columns] for line in lines if line[3] != "outcome" or line[2] == "outcome"]
    for line in short:
        line[2:4] = [line[2].replace("_", " "), f"`{line[3]}`"]
    return [[COLUMNS[index] for index in columns], *short]


def _page(rows: Sequence[Row], lines: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in COLUMNS)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    explained = (
        f"Episodes until success on validation tasks reaches {TARGET:.0%}, sampled at temperature 1; ratios count the "
        "episodes that an estimator plays beside, too. Most seeds did not reach a number behind &gt;. Ratios are "
        "geometric means over paired seeds with 95 % intervals. The marks &gt; and &lt; say that a run ended before "
        "80 %, and * that p is at most 0.05 after Holm's correction over all ratios of episodes. Ratios of processor "
        "time, and those on the maps, are not corrected; a map shows the arm that came out best."
    )
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Where turn-level credit pays</title><style>{STYLE}</style><h1>Where turn-level credit pays</h1>"
        f"<p>{explained}</p>{''.join(f'<p>{escape(note)}</p>' for note in notes)}"
        f"<h2>Learning against the horizon</h2>{by_horizon(rows)}"
        f"<h2>Which estimator wins where, at equal episodes</h2>{heat_map(rows)}"
        f"<h2>Which estimator wins where, at equal processor time</h2>{heat_map(rows, cpu_s_of)}"
        f"<h2>Curves</h2>{curves(rows)}<h2>Every cell</h2><table><tr>{head}</tr>{body}</table></html>"
    )
