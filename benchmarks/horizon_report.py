"""Tables, plots and the page of `benchmarks/horizon.py`, from results.jsonl and predictions.json."""

from __future__ import annotations

import io
import json
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from horizon_cells import ARMS, EPISODES_PER_STEP, TARGET, UNSEEN_HORIZONS, VALIDATE_EVERY
from scipy import stats
from training_runs import COLOURS

from agentgym.evaluation.statistics.holm import holm

Row = Mapping[str, Any]
Group = tuple[str, int, str]  # environment, horizon, feedback
REFERENCES = ("outcome", "flattened")
COLOUR_OF = dict(zip(ARMS, COLOURS, strict=True))
EPISODE_TICKS = (250, 500, 1_000, 2_000, 4_000, 8_000)
STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}
table{border-collapse:collapse;margin:1rem 0;display:block;overflow-x:auto}td,th{padding:.25rem .6rem;text-align:right;
border-bottom:1px solid #8884;white-space:nowrap}td:first-child,th:first-child{text-align:left}
svg{max-width:100%;height:auto}
@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}svg{background:#fff}}"""


@dataclass(frozen=True, slots=True)
class Ratio:
    """Episodes to 80 % of an arm as a multiple of another arm's, over paired seeds.

    Attributes:
        value, low, high: geometric mean with its 95 % t interval; NaN bounds for a single seed.
        p: of a paired t test on the logarithms; NaN for a single seed.
        seeds: pairs.
        bound: "" if both arms reached 80 % in every pair; ">" if the arm did not in some, so that the ratio is at least
            this; "<" if the other did not; "?" if both did not in some.
    """

    value: float
    low: float
    high: float
    p: float
    seeds: int
    bound: str

    @property
    def text(self) -> str:
        interval = "" if math.isnan(self.low) else f" [{self.low:.2f}, {self.high:.2f}]"
        return f"{self.bound}{self.value:.2f}{interval}"


def episodes_of(row: Row) -> float:
    """Episodes to 80 %, with those that the estimator plays beside; all that were played if it was not reached."""
    share = (row["episodes_to_target"] or row["episodes"]) / row["episodes"]
    return float((row["episodes_to_target"] or row["episodes"]) + share * row["episodes_beside"])


def ratio(these: Sequence[Row], those: Sequence[Row]) -> Ratio | None:
    """Compare two arms over the seeds that both have; None without any."""
    others = {row["seed"]: row for row in those}
    pairs = [(row, others[row["seed"]]) for row in these if row["seed"] in others]
    if not pairs:
        return None
    logs = np.array([math.log(episodes_of(a) / episodes_of(b)) for a, b in pairs])
    open_ends = {(a["episodes_to_target"] is None, b["episodes_to_target"] is None) for a, b in pairs}
    above, below = any(a and not b for a, b in open_ends), any(b and not a for a, b in open_ends)
    bound = "?" if (True, True) in open_ends or (above and below) else ">" if above else "<" if below else ""
    mean, count = float(logs.mean()), len(logs)
    if count < 2:
        return Ratio(math.exp(mean), math.nan, math.nan, math.nan, count, bound)
    # Success is looked at every few steps only: equal values are equal up to that grid.
    grid = [(VALIDATE_EVERY * EPISODES_PER_STEP / min(episodes_of(a), episodes_of(b))) ** 2 / 6 for a, b in pairs]
    error = math.sqrt(max(float(logs.var(ddof=1)), float(np.mean(grid))) / count)
    reach = float(stats.t.ppf(0.975, count - 1)) * error
    p = float(2 * stats.t.sf(abs(mean) / error, count - 1))
    return Ratio(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach), p, count, bound)


def by_cell(rows: Sequence[Row]) -> dict[tuple[Group, str], list[Row]]:
    """The rows of each group and arm, by seed; those of `outcome` in every group of their environment and horizon."""
    cells: dict[tuple[Group, str], list[Row]] = defaultdict(list)
    feedbacks = defaultdict(set)
    for row in rows:
        feedbacks[row["environment"], row["horizon"]].add(row["feedback"])
    for row in sorted(rows, key=lambda row: row["seed"]):
        environment, horizon = row["environment"], row["horizon"]
        groups = feedbacks[environment, horizon] if row["arm"] == "outcome" else {row["feedback"]}
        for feedback in groups:
            cells[(environment, horizon, feedback), row["arm"]].append(row)
    return cells


def table(rows: Sequence[Row], predictions: Mapping[str, Any]) -> list[list[str]]:
    """One line for each group and arm."""
    cells = by_cell(rows)
    compared: list[tuple[list[str], dict[str, Ratio | None]]] = []
    for (group, arm), own in sorted(cells.items(), key=lambda item: (item[0][0], list(ARMS).index(item[0][1]))):
        environment, horizon, feedback = group
        solved = [row for row in own if row["episodes_to_target"] is not None]
        mid = median(episodes_of(row) for row in own)
        known = predictions.get(f"{environment}-{horizon}", {}).get("cells", {})
        foreseen = known.get(f"{'outcome' if arm == 'outcome' else feedback}-{arm}", {})
        line = [
            environment,
            str(horizon),
            feedback,
            arm,
            f"{len(solved)} of {len(own)}",
            f"{'' if len(solved) > len(own) / 2 else '>'}{mid:.0f}",
            " ".join(f"{'' if row['episodes_to_target'] else '>'}{episodes_of(row):.0f}" for row in own),
            *(f"{foreseen[skills]['episodes']:.0f}" if foreseen else "-" for skills in ("shared", "own")),
            f"{np.mean([row['held_out'] for row in own]):.2f}",
            _unseen_horizons(own),
            f"{np.mean([row['cpu_s'] for row in own]):.0f}",
        ]
        others = () if arm == "outcome" else [name for name in REFERENCES if name != arm]
        compared.append((line, {name: ratio(own, cells.get((group, name), [])) for name in others}))
    tests = [other for _, ratios in compared for other in ratios.values() if other and not math.isnan(other.p)]
    corrected = dict(zip(map(id, tests), holm([test.p for test in tests]) if tests else (), strict=True))
    lines = []
    for line, ratios in compared:
        for name in REFERENCES:
            against = ratios.get(name)
            star = "*" if against and corrected.get(id(against), 1.0) <= 0.05 else ""
            line.append(f"{against.text}{star}" if against else "")
        lines.append(line)
    return lines


def _unseen_horizons(rows: Sequence[Row]) -> str:
    """Mean success at each of them, over the runs in which it was measured."""
    measured = [row["unseen_horizons"] for row in rows if row.get("unseen_horizons")]
    return " ".join(f"{np.mean([m[str(h)] for m in measured]):.2f}" for h in UNSEEN_HORIZONS) if measured else "-"


COLUMNS = [
    "environment",
    "horizon",
    "feedback",
    "estimator",
    "seeds at 80 %",
    "episodes (median)",
    "by seed",
    "predicted, shared skill",
    "predicted, own skills",
    "held out",
    f"unseen horizons {', '.join(map(str, UNSEEN_HORIZONS))}",
    "CPU-s",
    "x outcome",
    "x flattened",
]


def rank_correlations(rows: Sequence[Row], predictions: Mapping[str, Any]) -> dict[str, tuple[float, float, int]]:
    """Spearman's correlation of predicted and measured episodes over all cells, its p-value and the cells, by skill."""
    pairs: dict[str, list[tuple[float, float]]] = {"shared": [], "own": []}
    for (group, arm), own in by_cell(rows).items():
        environment, horizon, feedback = group
        if arm == "outcome" and feedback != "outcome":
            continue
        foreseen = predictions.get(f"{environment}-{horizon}", {}).get("cells", {}).get(f"{feedback}-{arm}")
        for skills, values in pairs.items() if foreseen else ():
            values.append((foreseen[skills]["episodes"], median(episodes_of(row) for row in own)))
    correlations = {}
    for skills, values in pairs.items():
        if len(values) > 2:
            result = stats.spearmanr(*zip(*values, strict=True))
            correlations[skills] = (float(result.statistic), float(result.pvalue), len(values))
    return correlations


def write_report(rows: Sequence[Row], out: Path) -> str:
    """Write table.md and report.html. Returns: a line that says where they are."""
    if not rows:
        return f"Nothing has been run yet in {out}."
    file = out / "predictions.json"
    predictions: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    lines = table(rows, predictions)
    markdown = [COLUMNS, ["---"] * len(COLUMNS), *lines]
    (out / "table.md").write_text("".join("| " + " | ".join(line) + " |\n" for line in markdown), encoding="utf-8")
    correlations = rank_correlations(rows, predictions)
    notes = [
        f"Rank correlation of predicted ({skills}) and measured episodes: {value:.2f} (p = {p:.2g}, {count} cells)."
        for skills, (value, p, count) in correlations.items()
    ]
    (out / "report.html").write_text(_page(rows, lines, notes), encoding="utf-8")
    return "\n".join([*notes, f"{len(rows)} runs. Tables: {out / 'table.md'}. Page: {out / 'report.html'}"])


def _page(rows: Sequence[Row], lines: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in COLUMNS)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in lines)
    explained = (
        f"Episodes until success on validation tasks reaches {TARGET:.0%}, sampled at temperature 1. Episodes that an "
        "estimator plays beside are counted. Most seeds did not reach a number behind &gt;. Ratios are geometric means "
        "over paired seeds with 95 % intervals. The marks &gt; and &lt; say that a run ended before 80 %, and * that p "
        "is at most 0.05 after Holm's correction over all ratios of the table."
    )
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Where turn-level credit pays</title><style>{STYLE}</style><h1>Where turn-level credit pays</h1>"
        f"<p>{explained}</p>{''.join(f'<p>{escape(note)}</p>' for note in notes)}"
        f"<h2>Learning against the horizon</h2>{by_horizon(rows)}<h2>Which estimator wins where</h2>{heat_map(rows)}"
        f"<h2>Curves</h2>{curves(rows)}<h2>Every cell</h2><table><tr>{head}</tr>{body}</table></html>"
    )


def _svg(figure: Any) -> str:
    from matplotlib import pyplot

    text = io.StringIO()
    figure.tight_layout()
    figure.savefig(text, format="svg")
    pyplot.close(figure)
    return text.getvalue()[text.getvalue().index("<svg") :]


def _panels(count: int, width: float, height: float) -> tuple[Any, list[Any]]:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    columns = min(count, 3)
    figure, axes = pyplot.subplots(
        math.ceil(count / columns),
        columns,
        figsize=(width * columns, height * math.ceil(count / columns)),
        squeeze=False,
    )
    flat = list(axes.flat)
    for unused in flat[count:]:
        unused.axis("off")
    return figure, flat[:count]


def by_horizon(rows: Sequence[Row]) -> str:
    """Median episodes to 80 % against the horizon on log axes, one panel for each environment and feedback."""
    cells = by_cell(rows)
    panels = sorted({(environment, feedback) for (environment, _, feedback), _ in cells})
    figure, axes = _panels(len(panels), 4.2, 3.6)
    for axis, (environment, feedback) in zip(axes, panels, strict=True):
        for arm in ARMS:
            points = sorted(
                (horizon, own)
                for ((e, horizon, f), a), own in cells.items()
                if (e, f, a) == (environment, feedback, arm)
            )
            if points:
                middle = [median(episodes_of(row) for row in own) for _, own in points]
                axis.plot([h for h, _ in points], middle, "o-", label=arm, color=COLOUR_OF[arm], linewidth=1.8)
        axis.set(
            xscale="log",
            yscale="log",
            title=f"{environment}, {feedback}",
            xlabel="horizon (turns)",
            ylabel="episodes to 80 %",
        )
        axis.set_xticks([2, 4, 8, 16, 32], labels=["2", "4", "8", "16", "32"])
        axis.set_yticks(EPISODE_TICKS, labels=[f"{tick:,}" for tick in EPISODE_TICKS])
        axis.set_ylim(EPISODE_TICKS[0], EPISODE_TICKS[-1])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=7)
    return _svg(figure)


def heat_map(rows: Sequence[Row]) -> str:
    """By horizon and feedback the arm that needed fewer episodes than `outcome`, if the interval of the ratio says so.

    Of the arms with the most seeds, that with the fewest median episodes is shown.
    """
    cells = by_cell(rows)
    environments = sorted({environment for (environment, _, _), _ in cells})
    figure, axes = _panels(len(environments), 5.5, 3.2)
    for axis, environment in zip(axes, environments, strict=True):
        horizons = sorted({h for (e, h, _), _ in cells if e == environment})
        feedbacks = sorted({f for (e, _, f), _ in cells if e == environment})
        axis.set(xlim=(0, len(horizons)), ylim=(0, len(feedbacks)), title=environment, xlabel="horizon (turns)")
        axis.set_xticks(np.arange(len(horizons)) + 0.5, labels=[str(h) for h in horizons])
        axis.set_yticks(np.arange(len(feedbacks)) + 0.5, labels=feedbacks)
        for x, horizon in enumerate(horizons):
            for y, feedback in enumerate(feedbacks):
                _mark_winner(axis, x, y, cells, (environment, horizon, feedback))
    return _svg(figure)


def _mark_winner(axis: Any, x: int, y: int, cells: Mapping[tuple[Group, str], list[Row]], group: Group) -> None:
    own = {arm: cells[group, arm] for arm in ARMS if arm != "outcome" and (group, arm) in cells}
    if not own:
        return
    most_seeds = max(map(len, own.values()))
    middles = {arm: median(map(episodes_of, rows)) for arm, rows in own.items() if len(rows) == most_seeds}
    winner = min(middles, key=lambda arm: middles[arm])
    against = ratio(own[winner], cells.get((group, "outcome"), []))
    differs = against is not None and against.high < 1
    axis.fill_between([x, x + 1], y, y + 1, color=COLOUR_OF[winner] if differs else "#ccc", alpha=0.35)
    text = f"{winner}\n{against.bound}{against.value:.2f} x" if differs and against else "no difference"
    axis.text(x + 0.5, y + 0.5, f"{text}\n{most_seeds} seeds", ha="center", va="center", fontsize=6)


def curves(rows: Sequence[Row]) -> str:
    """Success on validation tasks over the episodes, mean over seeds; a run that reached 80 % stays there."""
    cells = by_cell(rows)
    groups = sorted({group for group, _ in cells})
    figure, axes = _panels(len(groups), 4.2, 3.2)
    for axis, group in zip(axes, groups, strict=True):
        for arm in ARMS:
            if own := cells.get((group, arm)):
                last = max(row["steps"][-1] for row in own)
                steps = np.arange(VALIDATE_EVERY, last + 1, VALIDATE_EVERY)
                success = np.mean([np.interp(steps, row["steps"], row["success"]) for row in own], axis=0)
                axis.plot(steps * EPISODES_PER_STEP, success, label=arm, color=COLOUR_OF[arm], linewidth=1.6)
        axis.axhline(TARGET, color="#888", linewidth=0.8, linestyle=":")
        axis.set(title=", ".join(map(str, group)), xlabel="episodes", ylabel="success", ylim=(0, 1))
        axis.legend(frameon=False, fontsize=6)
    return _svg(figure)
