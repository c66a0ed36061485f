"""The tables of `agentgym dev credit-bench` and `credit-bias` in the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agentgym.testing.exact.bias import GradientBias
from agentgym.text import percent
from research.credit_bench.markdown import updates
from research.credit_bench.report import BenchmarkRow

BIAS_STYLE = {"unbiased": "green", "direction": "cyan", "biased": "yellow", "heuristic": "magenta"}


def bias_table(measured: Mapping[str, tuple[str, Sequence[GradientBias]]]) -> RenderableType:
    """Return a table with one line per estimator: declared class, then the error per problem and group size."""
    first = next(iter(measured.values()), ("", ()))[1]
    problems = list(dict.fromkeys(row.problem for row in first))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Estimator")
    table.add_column("Declared", no_wrap=True)
    for problem in problems:
        table.add_column(problem.replace("_", " "), justify="right")
    for name, (declared, rows) in measured.items():
        cells = []
        for problem in problems:
            errors = [row.error for row in rows if row.problem == problem]
            cells.append("0" if not any(errors) else " ".join(f"{error:.2f}" for error in errors))
        table.add_row(name, Text(declared, style=BIAS_STYLE[declared]), *cells)
    note = (
        "Distance of the mean gradient from the true one, in units of its length, for groups of 2, 3 and 4; 0 is below "
        "1e-9. Direction: a positive multiple of it where returns take two values."
    )
    return Group(table, Text(f"\n{note}", style="dim"))


def bench_table(rows: Sequence[BenchmarkRow]) -> RenderableType:
    """Return two tables with one line per estimator: error of its credit, and learning, at each number of turns."""
    counts = sorted({row.turns for row in rows})
    by_name = {(row.name, row.turns): row for row in rows}
    names = list(dict.fromkeys(row.name for row in rows))
    measured = [name for name in names if any(by_name[name, k].measures for k in counts)]
    errors = _by_turns("Error of the credit, 0 (exact up to a factor) to 1, by turns", counts, "Sign", "Noise")
    learning = _by_turns("Median updates until the right action has chance 0.9, by turns", counts)
    for name in measured:
        line = [by_name[name, k] for k in counts]
        last = next(row.measures for row in reversed(line) if row.measures)
        cells = [f"{row.measures.error.value:.2f}" if row.measures else "-" for row in line]
        head = (name, Text(line[0].bias, style=BIAS_STYLE[line[0].bias]))
        errors.add_row(*head, *cells, percent(last.sign.value), f"{last.noise.value:.1f}")
        learning.add_row(*head, *map(updates, line))
    note = (
        f"Sign and noise at {counts[-1]} turns: share of right signs at the turn that decides; deviation of the "
        "gradient from one group over the length of its mean. > : most seeds did not get there."
    )
    skipped = (Text(f"{name}: {by_name[name, counts[0]].skipped}") for name in names if name not in measured)
    return Group(errors, Text(), learning, Text(f"\n{note}", style="dim"), *skipped)


def _by_turns(title: str, counts: Sequence[int], *more: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left", title_style="")
    table.add_column("Estimator", no_wrap=True)
    table.add_column("Bias", no_wrap=True)
    for head in (*map(str, counts), *more):
        table.add_column(head, justify="right", no_wrap=True)
    return table
