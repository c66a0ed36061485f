"""`agentgym show`: a run in the terminal."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.console import out
from agentgym.errors import EvaluationError

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym.evaluation.report.contents import Contents
    from agentgym.storage.ledger import Ledger
    from agentgym.storage.run_folder import RunFolder

MAX_LISTED = 50
CURVES = ("loss", "success", "reward", "calls_ok", "turns", "failed")


def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, e.g. runs/quickstart.")],
    episode: Annotated[str | None, typer.Option(metavar="ID", help="Print this episode.")] = None,
    listing: Annotated[
        str | None, typer.Option("--list", metavar="PREFIX", help="List episodes whose id begins so, e.g. held-out.")
    ] = None,
) -> None:
    """Show the results of a run so far, or print one of its episodes.

    Example: agentgym show runs/quickstart --list held-out-after
    """
    from agentgym.cli.tables import print_episode
    from agentgym.evaluation.report.contents import read
    from agentgym.storage.run_folder import RunFolder

    folder, console = RunFolder.existing(run), out()
    if episode is not None or listing is not None:
        ledger = _ledger(folder)
        try:
            if episode is not None:
                print_episode(ledger.load(episode), console)
            else:
                _list(ledger, listing or "", console)
        finally:
            ledger.close()
        return
    _summary(read(folder.path), folder, console)


def _summary(contents: Contents, folder: RunFolder, console: Console) -> None:
    from rich.table import Table

    from agentgym.cli.tables import episodes_table
    from agentgym.evaluation.text import format_evaluation, format_gains

    facts = [contents.recipe_value("tasks", "set"), contents.recipe_value("train", "estimator"), contents.path]
    console.print(f"[bold]{contents.name}[/]  " + "  ".join(str(fact) for fact in facts if fact))
    if contents.metrics:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("Phase", no_wrap=True)
        table.add_column("Step", justify="right")
        names = [name for name in CURVES if any(name in row for rows in contents.metrics.values() for row in rows)]
        for name in names:
            table.add_column(name, justify="right")
        for phase, rows in contents.metrics.items():
            last = {key: value for row in rows for key, value in row.items()}
            cells = [f"{last[name]:.2f}" if name in last else "" for name in names]
            table.add_row(phase, str(int(rows[-1]["step"])), *cells)
        console.print(table)
    for evaluation in contents.evaluations:
        console.print(format_evaluation(evaluation), markup=False)
    before, after = contents.pair()
    if before and after:
        console.print(format_gains(before, after, first=contents.recipe_value("evaluate", "stratum")), markup=False)
    if not contents.metrics and not contents.evaluations and (contents.path / "ledger.sqlite").is_file():
        ledger = _ledger(folder)
        try:
            console.print(episodes_table(list(ledger.trajectories())))
        finally:
            ledger.close()
    if (folder.path / "guard.json").is_file():
        for alarm in folder.read_json("guard.json")["alarms"]:
            alarm_text = f"guard, step {alarm['step']}: {alarm['reason']}"
            console.print(alarm_text, style="yellow", markup=False, soft_wrap=True)
    for note in contents.notes:
        console.print(f"note: {note}", style="yellow", markup=False)
    if (report := contents.path / "report.html").is_file():
        console.print(f"report: {report}", markup=False, soft_wrap=True)


def _list(ledger: Ledger, prefix: str, console: Console) -> None:
    count = 0
    for trajectory in islice(ledger.trajectories(prefix), MAX_LISTED + 1):
        count += 1
        if count > MAX_LISTED:
            console.print(f"[only the first {MAX_LISTED} are listed: give a longer prefix]", markup=False)
            break
        stop = trajectory.stop_reason.value if trajectory.stop_reason else "unfinished"
        success = "-" if trajectory.success is None else f"{trajectory.success:g}"
        line = f"{trajectory.id}  success {success}  turns {len(trajectory.turns)}  {stop}"
        console.print(line, markup=False, soft_wrap=True)
    if not count:
        raise EvaluationError(f"{ledger.path} has no finished episode whose id begins with {prefix!r}.")


def _ledger(folder: RunFolder) -> Ledger:
    from agentgym.storage.ledger import Ledger

    return Ledger(folder.existing_ledger())
