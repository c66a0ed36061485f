"""Line charts as SVG for pages without scripts (the credit benchmark, plots in the docs); runs use `page/chart.js`.

They need no plotting library. Colours are CSS variables of the page, so one drawing serves dark and light. Pointing at
a chart shows the values there; each point's <title> holds the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentgym.evaluation.report.html import Html, el

Point = tuple[float, float]
_Project = Callable[[float, float], Point]
WIDTH, HEIGHT = 560, 264
LEFT, RIGHT, TOP, BOTTOM = 50, 14, 26, 40


@dataclass(frozen=True, slots=True)
class Series:
    """One line. `colour` is 1 to 5, of which 5 is grey; `raw` is drawn faintly behind it.

    `band` is (x, low, high) around the line; `dots` marks every point.
    """

    name: str
    points: Sequence[Point]
    colour: int = 1
    raw: Sequence[Point] = ()
    band: Sequence[tuple[float, float, float]] = ()
    dots: bool = False


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    x_label: str,
    note: str = "",
    hover: bool = True,
) -> Html:
    """Return a figure with one or more lines over a common x axis.

    Args:
        note: a line under the title that describes the chart.
        hover: show the values under the pointer.
    Returns: a <figure>; an empty text if no series has a finite point.
    """
    series = [s for s in map(_finite, series) if s.points]
    if not series:
        return Html("")
    xs = [x for s in series for x, _ in s.points]
    ys = [y for s in series for _, y in (*s.points, *s.raw)] + [v for s in series for _, a, b in s.band for v in (a, b)]
    x_ticks = ticks(min(xs), max(xs), 6, integers=True)
    y_ticks = ticks(min(ys), max(ys), 5)
    x_low, x_high = min(xs), max(max(xs), min(xs) + 1e-9)
    y_low, y_high = y_ticks[0], y_ticks[-1]

    def project(x: float, y: float) -> Point:
        across = (x - x_low) / (x_high - x_low) if x_high > x_low else 0.5
        return (
            LEFT + across * (WIDTH - LEFT - RIGHT),
            HEIGHT - BOTTOM - (min(max(y, y_low), y_high) - y_low) / (y_high - y_low) * (HEIGHT - TOP - BOTTOM),
        )

    shapes: list[Html] = []
    for value in y_ticks:
        _, y = project(x_low, value)
        shapes.append(el("line", cls="grid", x1=LEFT, x2=WIDTH - RIGHT, y1=_n(y), y2=_n(y)))
        label = tick_label(value, y_ticks[1] - y_ticks[0])
        shapes.append(el("text", label, cls="tick", x=LEFT - 8, y=_n(y + 4), text_anchor="end"))
    for value in x_ticks:
        if x_low <= value <= x_high:
            x, _ = project(value, y_low)
            shapes.append(el("text", show(value), cls="tick", x=_n(x), y=HEIGHT - BOTTOM + 18, text_anchor="middle"))
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    shapes.append(el("text", x_label, cls="axis", x=_n(middle), y=HEIGHT - 5, text_anchor="middle"))
    for s in reversed(series):  # draw the most important series, the first, on top
        shapes += _draw(s, project)
    if hover:
        shapes += _hover(series, project, x_label)
    names = el("ul", [el("li", el("i", cls=f"key c{s.colour}"), s.name) for s in series], cls="legend")
    return el(
        "figure",
        el("figcaption", el("b", title), el("span", note) if note else None),
        names if len(series) > 1 else None,
        el(
            "svg",
            el("title", describe(title, series, x_label)),
            shapes,
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            role="img",
            xmlns="http://www.w3.org/2000/svg",
        ),
        cls="chart",
    )


def describe(title: str, series: Sequence[Series], x_label: str) -> str:
    """Return a description of the chart, for readers who cannot see it."""
    parts = []
    for s in series:
        (x0, y0), (x1, y1) = s.points[0], s.points[-1]
        parts.append(f"{s.name} from {show(y0)} at {x_label} {show(x0)} to {show(y1)} at {show(x1)}")
    return f"{title}: " + "; ".join(parts)


def ticks(low: float, high: float, count: int, *, integers: bool = False) -> list[float]:
    """Return round values (1, 2 or 5 times a power of ten apart) around low to high; whole ones with `integers`."""
    if high - low < 1e-12:
        span = abs(low) if abs(low) > 1e-9 else 1.0
        low, high = low - span / 2, high + span / 2
    raw = (high - low) / max(1, count - 1)
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(m * size for m in (1, 2, 5, 10) if m * size >= raw * 0.999)
    if integers:
        step = max(1.0, step)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def show(value: float) -> str:
    """Return a number in readable form: 1,200, 0.034, 2.5e-6."""
    if value == 0:
        return "0"
    if abs(value) < 1e-3:
        return f"{value:.1e}".replace("e-0", "e-").replace(".0e", "e")
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def tick_label(value: float, step: float) -> str:
    """Return an axis value, with enough decimals to distinguish it from its neighbours `step` away."""
    if value and (abs(step) < 1e-4 or abs(value) >= 1e6):
        return f"{value:.3g}"
    return f"{value:,.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"


def _finite(s: Series) -> Series:
    return Series(
        s.name,
        [p for p in s.points if math.isfinite(p[0]) and math.isfinite(p[1])],
        s.colour,
        [p for p in s.raw if math.isfinite(p[0]) and math.isfinite(p[1])],
        [b for b in s.band if all(map(math.isfinite, b))],
        s.dots,
    )


def _draw(s: Series, project: _Project) -> list[Html]:
    shapes = []
    if s.band:
        above = [project(x, high) for x, _, high in s.band]
        below = [project(x, low) for x, low, _ in reversed(s.band)]
        shapes.append(el("polygon", cls=f"band c{s.colour}", points=_points(above + below)))
    if s.raw:
        shapes.append(el("polyline", cls=f"raw c{s.colour}", points=_points([project(*p) for p in s.raw])))
    positions = [project(*p) for p in s.points]
    if len(positions) > 1:
        shapes.append(el("polyline", cls=f"line c{s.colour}", points=_points(positions)))
    if s.dots or len(positions) == 1:
        shapes += [el("circle", cls=f"dot c{s.colour}", cx=_n(x), cy=_n(y), r=3.5) for x, y in positions]
    return shapes


def _hover(series: Sequence[Series], project: _Project, x_label: str) -> list[Html]:
    """Return one invisible column per x value; pointing at it shows the values there."""
    by_x: dict[float, list[tuple[Series, float]]] = {}
    for s in series:
        for x, y in s.points:
            by_x.setdefault(x, []).append((s, y))
    columns = sorted(by_x)
    centres = [project(x, 0.0)[0] for x in columns]
    shapes = []
    for i, x in enumerate(columns):
        left = (centres[i - 1] + centres[i]) / 2 if i else LEFT
        right = (centres[i + 1] + centres[i]) / 2 if i + 1 < len(columns) else WIDTH - RIGHT
        words = " · ".join(f"{s.name} {show(y)}" if len(series) > 1 else show(y) for s, y in by_x[x])
        label = f"{x_label} {show(x)}: {words}"
        shapes.append(
            el(
                "g",
                el("title", label),
                el("rect", x=_n(left), y=TOP, width=_n(max(right - left, 0.5)), height=HEIGHT - TOP - BOTTOM),
                el("line", x1=_n(centres[i]), x2=_n(centres[i]), y1=TOP, y2=HEIGHT - BOTTOM),
                [
                    el("circle", cls=f"dot c{s.colour}", cx=_n(centres[i]), cy=_n(project(x, y)[1]), r=4)
                    for s, y in by_x[x]
                ],
                el("text", label, cls="readout", x=WIDTH - RIGHT, y=14, text_anchor="end"),
                cls="col",
            )
        )
    return shapes


def _points(points: Sequence[Point]) -> str:
    return " ".join(f"{_n(x)},{_n(y)}" for x, y in points)


def _n(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
