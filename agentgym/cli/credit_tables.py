"""What `agentgym credit` shows in the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agentgym.cli.credit_markdown import updates
from agentgym.credit.advice import CreditFacts, Suggestion
from agentgym.credit.bench import BenchmarkRow
from agentgym.credit.exact import GradientBias
from agentgym.evaluation.credit_audit import Audit
from agentgym.text import percent

BIAS_STYLE = {"unbiased": "green", "direction": "cyan", "biased": "yellow", "heuristic": "magenta"}


def bias_table(measured: Mapping[str, tuple[str, Sequence[GradientBias]]]) -> RenderableType:
    """One line an estimator: declared class, then the error on each problem for each group size."""
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
    """Two tables with a line an estimator: error of its credit, and learning with it, at each number of turns."""
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


def audit_table(audit: Audit) -> RenderableType:
    """Agreement of each estimator with counterfactual credit, and what its advantages look like."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Estimator", no_wrap=True)
    for head in ("Same sign", "Rank", "No gradient", "Singletons"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, agreement in audit.agreements.items():
        facts = audit.facts[name]
        table.add_row(
            name,
            f"{_percent(agreement.sign)} ({_percent(agreement.sign_low)} to {_percent(agreement.sign_high)})",
            f"{_number(agreement.rank)} ({_number(agreement.rank_low)} to {_number(agreement.rank_high)})",
            _percent(facts.zero_gradient),
            _percent(facts.singletons),
        )
    lines: list[RenderableType] = [table]
    for name, facts in audit.facts.items():
        spread = "  ".join(f"{k}: {value:.3g}" for k, value in enumerate(facts.variance[:12]))
        lines.append(Text(f"{name}, variance of the advantage by turn  {spread}", style="dim"))
    lines.append(
        Text(
            f"{audit.turns} turns of {audit.trajectories} trajectories, {audit.continuations} episodes played on, "
            f"{audit.diverged} of them set aside because their world answered otherwise. The counterfactual credit of "
            f"a turn has a standard error of about {audit.noise:.2f}: no estimator can agree with it wholly.",
            style="dim",
        )
    )
    return Group(*lines)


def advice_table(
    facts: CreditFacts, advice: Sequence[Suggestion], ratios: Mapping[str, float], *, used: str
) -> RenderableType:
    """The facts of a run, what to try, and the signal to noise that the model predicts.

    Args:
        used: the estimator of the run.
    """
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    for name, value in (
        ("groups, episodes", f"{facts.groups}, {facts.episodes}"),
        ("turns: median, most", f"{facts.turns:g}, {facts.most_turns}"),
        ("mean outcome", f"{facts.outcome:.2f}"),
        ("groups whose outcomes are all equal", percent(facts.silent_outcome)),
        ("... and whose turn rewards are all equal", percent(facts.silent)),
        ("turns whose rewards tell episodes apart", percent(facts.paid_turns)),
        ("variance of a turn's return that later turns cause", _percent(facts.later_noise)),
        ("turns in a state that another episode was in", _percent(facts.repeated_states)),
        ("potential", "yes" if facts.has_potential else "no"),
    ):
        table.add_row(name, value)
    lines: list[RenderableType] = [table, Text()]
    for suggestion in advice:
        head = f"Try {suggestion.estimator}" if suggestion.estimator else "More than any estimator would help"
        lines.append(Text(f"{head}: {suggestion.reason}."))
    predicted = "  ".join(f"{name} {value:.2g}" for name, value in ratios.items())
    lines.append(
        Text(f"\nThe run used {used}. Predicted signal to noise of a group's gradient: {predicted}", style="dim")
    )
    lines.append(Text("See docs/horizon.md for what these predictions are worth.", style="dim"))
    return Group(*lines)


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else percent(value)


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:+.2f}"
