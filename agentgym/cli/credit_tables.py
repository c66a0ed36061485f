"""The terminal tables of `agentgym credit`."""

from __future__ import annotations

import math

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agentgym.evaluation.credit_audit import Audit
from agentgym.text import percent


def audit_table(audit: Audit) -> RenderableType:
    """Return a table of each estimator's agreement with counterfactual credit, and its advantages' statistics."""
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


def _percent(value: float) -> str:
    return "-" if math.isnan(value) else percent(value)


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:+.2f}"
