"""The plot of a sandbox's cost by the number of live sandboxes: SVG without any library, and PNG with matplotlib."""

from __future__ import annotations

import re
from pathlib import Path

from sandbox_many import Costs

from research.svg import Series, line_chart

# alone, without the page of a report around it, a drawing has to bring its own colours
_STYLE = """<style>text{font:12px sans-serif;fill:#333}.raw{display:none}.line{fill:none;stroke-width:2}
.grid{stroke:#ddd}.c1{stroke:#1f6fb4}.c2{stroke:#d1632a}.c3{stroke:#2e8b57}circle.c1{fill:#1f6fb4}circle.c2{fill:#d1632a}
circle.c3{fill:#2e8b57}rect{fill:#fff}</style><rect width="100%" height="100%"/>"""
_ROOM = 1.3  # above the highest point, for the names of the lines
_FEWEST = 100  # below, memory is what others do


def draw(costs: Costs, folder: Path) -> list[Path]:
    """Write sandbox-time.svg and sandbox-memory.svg, and sandbox.png. Returns: the files."""
    memory = {"MiB each": [point for point in costs["MiB each"] if point[0] >= _FEWEST]}
    times = {name: points for name, points in costs.items() if name != "MiB each"}
    files = []
    for name, lines in (("time", times), ("memory", memory)):
        highest = max((value for points in lines.values() for _, value in points), default=1.0)
        frame = [(0.0, 0.0), (0.0, _ROOM * highest)]  # not drawn, but the scale goes as far
        series = [
            Series(label, points, colour, raw=frame, dots=True)
            for colour, (label, points) in enumerate(lines.items(), 1)
        ]
        figure = line_chart(name, series, x_label="sandboxes alive", hover=False)
        drawing = re.search(r"<svg.*</svg>", str(figure), re.DOTALL)
        if drawing is not None:
            files.append(folder / f"sandbox-{name}.svg")
            legend = "".join(
                f'<text x="{170 * number - 110}" y="16">{label}, {"MiB" if name == "memory" else "ms"}</text>'
                f'<circle class="c{number}" cx="{170 * number - 118}" cy="12" r="4"/>'
                for number, label in enumerate(lines, 1)
            )
            text = drawing.group().replace("</title>", f"</title>{_STYLE}{legend}", 1)
            files[-1].write_text(text)
    return files + _with_matplotlib(times, memory, folder / "sandbox.png")


def _with_matplotlib(times: Costs, memory: Costs, path: Path) -> list[Path]:
    try:
        import matplotlib
    except ImportError:
        return []
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
    for axes, lines, unit in zip(panels, (times, memory), ("ms, median", "MiB, idle"), strict=True):
        for label, points in lines.items():
            if points:
                axes.plot(*zip(*points, strict=True), marker="o", label=label)
        axes.set(xscale="log", xlabel="sandboxes alive", ylabel=unit, ylim=(0, _ROOM * axes.dataLim.y1))
        axes.legend(frameon=False)
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return [path]
