"""The learning curves of a run, from its metrics."""

from __future__ import annotations

from collections.abc import Iterable

from agentgym.evaluation.report.contents import Contents
from agentgym.evaluation.report.html import Html, el
from agentgym.evaluation.report.svg import Point, Series, line_chart, show, smooth
from agentgym.evaluation.statistics import wilson

SHOWN_APART = {"step", "time", "epoch"}


def curves(contents: Contents) -> Html:
    """Charts of what matters, then every other number that was logged, folded away."""
    train, width = contents.metrics.get("train", []), 0
    width = max(1, len(train) // 25) | 1  # odd, so that the mean is centred
    note = f"mean of {width} steps; every step drawn faintly" if width > 1 else ""
    loss = _points(contents.metrics.get("warm_start", []), "loss")
    charts = [
        line_chart(
            "Warm start", [Series("loss", smooth(loss, 3), 4, raw=loss)], x_label="step",
            note="loss on the agent's own tokens, nats per token",
        ),
        _success(contents, "warm_start_validation", "Warm start, success", "validation tasks, band: 95 % interval"),
        _success(contents, "validation", "Success", "validation tasks, band: 95 % interval", train, width),
        line_chart("Reward", [_smoothed("reward", train, "reward", 2, width)], x_label="step",
                   note=f"per training episode{', ' + note if note else ''}"),
        line_chart(
            "Calls that ran", [*_validation(contents, "calls_ok"), _smoothed("training", train, "calls_ok", 5, width)],
            x_label="step", percent=True, note="share of calls that came back without an error",
        ),
        line_chart(
            "Turns per episode", [*_validation(contents, "turns"), _smoothed("training", train, "turns", 5, width)],
            x_label="step",
        ),
        line_chart(
            "Turn rewards",
            [_smoothed(name.removeprefix("turn_reward/"), train, name, 1 + i, width)
             for i, name in enumerate(_names(train, "turn_reward/")[:4])],
            x_label="step", note="sum over an episode, by component", legend=True,
        ),
        line_chart("Entropy", [_smoothed("entropy", train, "entropy", 2, width)], x_label="step",
                   note="of the agent's next token, nats; a fall to 0 is a collapse"),
    ]  # fmt: skip
    drawn = [chart for chart in charts if chart]
    rest = _rest(contents)
    if not drawn and not rest:
        return Html("")
    return el("section", el("h2", "How it learned"), el("div", drawn, cls="charts"), rest)


def _success(
    contents: Contents, phase: str, title: str, note: str, train: list[dict[str, float]] | None = None, width: int = 1
) -> Html:
    section = "warm_start" if phase.startswith("warm") else "train"
    count = contents.setting(section, "validate_tasks", default=64)
    count = count if isinstance(count, int) and count > 0 else 64
    rows = [row for row in contents.metrics.get(phase, []) if 0 <= row.get("success", -1) <= 1]
    band = []
    for row in rows:
        n = max(1, count - int(row.get("failed", 0)))
        estimate = wilson(row["success"] * n, n)
        band.append((row["step"], estimate.low, estimate.high))
    series = [Series("validation", _points(rows, "success"), 1, band=band, dots=True)]
    if train:
        series.append(_smoothed("training", train, "success", 5, width))
    return line_chart(title, series, x_label="step", percent=True, note=note)


def _validation(contents: Contents, name: str) -> list[Series]:
    return [Series("validation", _points(contents.metrics.get("validation", []), name), 1, dots=True)]


def _smoothed(label: str, rows: list[dict[str, float]], name: str, colour: int, width: int) -> Series:
    points = _points(rows, name)
    return Series(label, smooth(points, width), colour, raw=points if width > 1 else ())


def _rest(contents: Contents) -> Html:
    """Every number that was logged, one small chart each."""
    small = []
    for phase, rows in contents.metrics.items():
        for name in _names(rows):
            points = _points(rows, name)
            if len(points) > 1 and len({y for _, y in points}) > 1:
                line = Series(name, points)
                small.append(
                    line_chart(name, [line], x_label=f"{phase} step", note=f"now {show(points[-1][1])}", hover=False)
                )
    if not small:
        return Html("")
    return el(
        "details", el("summary", f"All {len(small)} numbers that were logged"), el("div", small, cls="charts small")
    )


def _names(rows: Iterable[dict[str, float]], prefix: str = "") -> list[str]:
    return sorted({name for row in rows for name in row if name.startswith(prefix)} - SHOWN_APART)


def _points(rows: Iterable[dict[str, float]], name: str) -> list[Point]:
    return [(row["step"], row[name]) for row in rows if name in row]
