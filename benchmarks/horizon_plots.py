"""Plots of `benchmarks/horizon.py`: learning against the horizon, which estimator wins where, and curves."""

from __future__ import annotations

import io
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import numpy as np
from horizon_cells import ARMS, TARGET, VALIDATE_EVERY, episodes_per_step
from horizon_ratios import Group, Row, by_cell, episodes_of, mostly_solved, ratio
from training_runs import COLOURS

COLOUR_OF = dict(zip(ARMS, COLOURS, strict=True))
LEAST_SEEDS = 3  # from which a map says that no difference was shown
MAIN_ARMS = ("outcome", "flattened", "return_to_go")
EPISODE_TICKS = (250, 500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000)


def pictures(rows: Sequence[Row]) -> dict[str, str]:
    """Return the pictures of docs/credit.md by name: three arms, with only the outcome and with dense turn rewards."""
    main = [
        {**row, "feedback": "dense"}
        for row in rows
        if row["arm"] in MAIN_ARMS and row["feedback"] in ("outcome", "dense")
    ]
    horizons = defaultdict(set)
    for row in main:
        horizons[row["environment"]].add(row["horizon"])
    several = [row for row in main if len(horizons[row["environment"]]) > 1]
    lengths = {"horizon-lengths": by_horizon(several)} if several else {}
    return {"horizon-curves": curves(main), "horizon-winners": heat_map(rows), **lengths} if main else {}


def as_svg(figure: Any) -> str:
    """Return the figure as SVG, equal for equal rows, and close the figure."""
    from matplotlib import pyplot

    text = io.StringIO()
    figure.tight_layout()
    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": "horizon"}):  # the same rows, the same file
        figure.savefig(text, format="svg", metadata={"Date": None})
    pyplot.close(figure)
    return text.getvalue()[text.getvalue().index("<svg") :]


def make_panels(count: int, width: float, height: float) -> tuple[Any, list[Any]]:
    """Return a figure with this number of panels, three in a row. `width`, `height`: size of a panel, in inches."""
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
    """Plot median episodes to 80 % against the horizon on log axes, one panel for each environment and feedback.

    A triangle marks cells in which most seeds did not reach 80 %.
    """
    cells = by_cell(rows)
    panels = sorted({(environment, feedback) for (environment, _, feedback), _ in cells})
    figure, axes = make_panels(len(panels), 4.2, 3.6)
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
                short = [(h, value) for (h, own), value in zip(points, middle, strict=True) if not mostly_solved(own)]
                if short:
                    axis.plot(*zip(*short, strict=True), "^", color=COLOUR_OF[arm], markersize=11)
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
        axis.set_xlim(1.8, 36)
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        axis.legend(frameon=False, fontsize=7)
    return as_svg(figure)


def heat_map(rows: Sequence[Row], cost: Callable[[Row], float] = episodes_of) -> str:
    """Plot, by horizon and feedback, the arms that cost significantly less than `outcome`.

    Only arms with the most seeds are shown; the arm with the lowest median cost comes first and gives the colour.
    """
    cells = by_cell(rows)
    environments = sorted({environment for (environment, _, _), _ in cells})
    figure, axes = make_panels(len(environments), 5.5, 3.2)
    for axis, environment in zip(axes, environments, strict=True):
        horizons = sorted({h for (e, h, _), _ in cells if e == environment})
        feedbacks = sorted({f for (e, _, f), _ in cells if e == environment})
        axis.set(xlim=(0, len(horizons)), ylim=(0, len(feedbacks)), title=environment, xlabel="horizon (turns)")
        axis.set_xticks(np.arange(len(horizons)) + 0.5, labels=[str(h) for h in horizons])
        axis.set_yticks(np.arange(len(feedbacks)) + 0.5, labels=feedbacks)
        for x, horizon in enumerate(horizons):
            for y, feedback in enumerate(feedbacks):
                _mark_winner(axis, (x, y), cells, (environment, horizon, feedback), cost)
    return as_svg(figure)


def _mark_winner(
    axis: Any,
    at: tuple[int, int],
    cells: Mapping[tuple[Group, str], list[Row]],
    group: Group,
    cost: Callable[[Row], float],
) -> None:
    x, y = at
    own = {arm: cells[group, arm] for arm in ARMS if arm != "outcome" and (group, arm) in cells}
    if not own:
        return
    most_seeds = max(map(len, own.values()))
    middles = {arm: median(map(cost, rows)) for arm, rows in own.items() if len(rows) == most_seeds}
    against = {arm: ratio(own[arm], cells.get((group, "outcome"), []), cost) for arm in middles}
    winners = [
        arm
        for arm in sorted(middles, key=lambda arm: middles[arm])
        if (of := against[arm]) is not None and of.bound in ("", "<") and of.high < 1
    ]
    axis.fill_between([x, x + 1], y, y + 1, color=COLOUR_OF[winners[0]] if winners else "#ccc", alpha=0.35)
    if winners:
        lines = [f"{arm} {against[arm].bound}{against[arm].value:.2f} x" for arm in winners]  # type: ignore[union-attr]
    else:
        lines = ["no difference shown" if most_seeds >= LEAST_SEEDS else "too few seeds"]
    lines.append(f"{most_seeds} seed{'s' if most_seeds > 1 else ''}")
    axis.text(x + 0.5, y + 0.5, "\n".join(lines), ha="center", va="center", fontsize=6)


def curves(rows: Sequence[Row]) -> str:
    """Plot success on validation tasks over episodes, as the mean over seeds; a run that reached 80 % stays there."""
    cells = by_cell(rows)
    groups = sorted({group for group, _ in cells})
    figure, axes = make_panels(len(groups), 4.2, 3.2)
    for axis, group in zip(axes, groups, strict=True):
        for arm in ARMS:
            if own := cells.get((group, arm)):
                last = max(row["steps"][-1] for row in own)
                steps = np.arange(VALIDATE_EVERY, last + 1, VALIDATE_EVERY)
                success = np.mean([np.interp(steps, row["steps"], row["success"]) for row in own], axis=0)
                axis.plot(steps * episodes_per_step(group[0]), success, label=arm, color=COLOUR_OF[arm], linewidth=1.6)
        axis.axhline(TARGET, color="#888", linewidth=0.8, linestyle=":")
        axis.set(title=", ".join(map(str, group)), xlabel="episodes", ylabel="success", ylim=(0, 1))
        axis.legend(frameon=False, fontsize=6)
    return as_svg(figure)
