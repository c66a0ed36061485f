"""`agentgym tasks weak`: the kinds of training tasks that a run fails at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.cli import out
from agentgym.text import percent, visible

if TYPE_CHECKING:
    from rich.table import Table

    from .history import WeakKind


def weak(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    label: Annotated[
        str, typer.Option(metavar="TEXT", help="Only episodes whose id begins with it, as train-0000.")
    ] = "",
    below: Annotated[float, typer.Option(min=0, max=1, help="A task is weak whose success stays under this.")] = 0.5,
    at_least: Annotated[int, typer.Option(min=1, help="Leave out kinds of fewer tasks.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table, and the weak tasks, as JSON.")] = False,
) -> None:
    """Say which kinds of training tasks a run fails at: tags, difficulties, environments.

    A task is weak if no visit's mean success reached --below, and it does not rise from visit to visit. Held-out and
    validation tasks are not looked at, nor episodes with help. The stage `generate` makes new tasks like the weak ones.
    Example: agentgym tasks weak runs/quickstart
    """
    import json

    from agentgym.storage import RunFolder

    from .history import histories_of_run, weak_kinds

    histories = histories_of_run(RunFolder.existing(run), label)
    kinds = weak_kinds(histories, below=below, at_least=at_least)
    weak_tasks = sorted(history.task.id for history in histories if history.is_weak(below))
    if as_json:
        data: dict[str, Any] = {"below": below, "kinds": [kind.to_json() for kind in kinds], "weak_tasks": weak_tasks}
        typer.echo(json.dumps(data, indent=1))
        return
    out().print(_kinds_table(kinds))
    counts = f"{len(weak_tasks)} of {len(histories)} tasks are weak"
    note = f"{counts}: no visit reached {percent(below)}, and success does not rise."
    out().print(note, markup=False, soft_wrap=True)


def _kinds_table(kinds: Sequence[WeakKind]) -> Table:
    """Return a row for each kind; narrow enough for 80 columns, where long names are folded."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Kind", overflow="fold")
    for name in ("Tasks", "Weak", "Episodes", "Success", "95 % interval", "Change"):
        table.add_column(name, justify="right", no_wrap=True)
    for kind in kinds:
        change = percent(kind.change, 1).removesuffix("%")
        table.add_row(
            Text(visible(kind.name)),
            str(kind.tasks),
            str(kind.weak),
            str(kind.episodes),
            percent(kind.success, 1),
            f"{percent(kind.low, 1)} to {percent(kind.high, 1)}",
            change if change.startswith("-") else f"+{change}",
            style="bold" if kind.name == "all" else None,
        )
    return table
