"""`agentgym credit advise`: which estimator to try on a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli import out

if TYPE_CHECKING:
    from rich.console import RenderableType

    from agentgym import Trajectory
    from agentgym.storage import RunFolder

    from .facts import CreditFacts, Suggestion


def advise(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A training run, e.g. runs/quickstart.")],
    prefix: Annotated[
        str,
        typer.Option(metavar="PREFIX", help="Episodes whose id begins so; by default those of the first ten steps."),
    ] = "train-00000",
) -> None:
    """Say which estimator to try on a run and why, from its horizon, its rewards, its states and their noise.

    Nothing is played. Example: agentgym credit advise runs/quickstart
    """
    from agentgym.credit import Group
    from agentgym.storage import RunFolder
    from agentgym.training import Recipe

    from .facts import facts_of, predicted_ratios, suggestions

    run_folder = RunFolder.existing(folder)
    groups = [Group.from_trajectories(group) for group in _groups(run_folder, prefix)]
    recipe = Recipe.load_recorded(run_folder.recipe)
    facts = facts_of(groups)
    ratios = predicted_ratios(facts, group_size=recipe.train.group_size)
    out().print(_table(facts, suggestions(facts), ratios, used=recipe.train.make_estimator().name))


def _groups(folder: RunFolder, prefix: str) -> list[list[Trajectory]]:
    """Return the run's finished episodes whose id begins with the prefix, by task. Raises: EvaluationError."""
    from agentgym import EvaluationError
    from agentgym.storage import Ledger

    groups: dict[str, list[Trajectory]] = {}
    with closing(Ledger(folder.existing_ledger())) as ledger:
        for trajectory in ledger.trajectories(prefix):
            groups.setdefault(trajectory.task.id, []).append(trajectory)
    if not groups:
        raise EvaluationError(f"{folder.ledger} has no finished episode whose id begins with {prefix!r}.")
    return list(groups.values())


def _table(
    facts: CreditFacts, advice: Sequence[Suggestion], ratios: Mapping[str, float], *, used: str
) -> RenderableType:
    """Return a table of a run's facts, the suggestions, and the signal-to-noise ratios that the model predicts.

    Args:
        used: the estimator of the run.
    """
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from agentgym.text import percent

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
    lines.append(Text("See docs/credit.md for what these predictions are worth.", style="dim"))
    return Group(*lines)


def _percent(value: float) -> str:
    from agentgym.text import percent

    return "-" if math.isnan(value) else percent(value)
