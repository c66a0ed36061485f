"""`agentgym show`, `report` and `view`: runs in the terminal, as a page, and in a browser."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.console import out
from agentgym.errors import EvaluationError
from agentgym.text import counted

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

    In a terminal it then goes through the episodes: j and k, Enter to read one, f to filter, / to search, m and d for
    the difference of two, q to end. In a pipe it only prints.

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
    if console.is_terminal and sys.stdin.isatty() and not console.is_dumb_terminal:
        _browse(folder, console)


def _browse(folder: RunFolder, console: Console) -> None:
    """Open the browser of episodes; without the package, or without episodes, say how to see them."""
    from agentgym._imports import install_command
    from agentgym.storage.reader import LedgerReader

    if not (folder.path / "ledger.sqlite").is_file():
        return
    if find_spec("textual") is None:
        hint = f"To go through the episodes here: {install_command('view')}"
        console.print(hint, style="dim", markup=False, soft_wrap=True)
        return
    from agentgym.cli.browse import EpisodeBrowser

    reader = LedgerReader(folder.existing_ledger())
    try:
        EpisodeBrowser(reader).run()
    finally:
        reader.close()


def _summary(contents: Contents, folder: RunFolder, console: Console) -> None:
    from rich.table import Table

    from agentgym.cli.tables import episodes_table
    from agentgym.evaluation.report.what_moves import what_moves
    from agentgym.evaluation.text import format_evaluation, format_gains

    facts = [contents.recipe_value("tasks", "set"), contents.recipe_value("train", "estimator"), contents.path]
    console.print(f"[bold]{contents.name}[/]  " + "  ".join(str(fact) for fact in facts if fact))
    if note := contents.user_notes().get(""):
        console.print(f"note: {note}", markup=False, highlight=False, soft_wrap=True)
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
        for phase, rows in contents.metrics.items():
            if moved := what_moves(rows):
                console.print(f"moved by, {phase}: {moved}", markup=False, soft_wrap=True)
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
        console.print(f"could not be read: {note}", style="yellow", markup=False)
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


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, e.g. runs/quickstart.")],
    mib: Annotated[
        float, typer.Option(min=0, help="How many MiB of episodes go in whole; the others are listed alone.")
    ] = 3.0,
) -> None:
    """Write RUN/report.html: one file with the result, the curves, and episodes to go through turn by turn.

    Example: agentgym report runs/quickstart
    """
    from agentgym.evaluation.report import write_report
    from agentgym.storage.run_folder import RunFolder

    out().print(str(write_report(RunFolder.existing(run), most_bytes=round(mib * 2**20))), markup=False, soft_wrap=True)


def view(
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUNS]...", help="Run folders, or folders with runs in them; by default runs/."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0 takes any free one.")] = 8642,
    browser: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser on it.")] = True,
) -> None:
    """Show runs in a browser: curves, episodes turn by turn with their credit, tokens, two episodes side by side.

    It reads while a run is writing, and serves this machine alone. From elsewhere: ssh -L 8642:localhost:8642 HOST.
    Notes on runs and episodes are written from the printed address only, which holds a token.

    Example: agentgym view runs
    """
    import secrets
    import webbrowser

    from agentgym.viewer.serving import ADDRESS, check_installed, listen, serve
    from agentgym.viewer.shelf import named_runs

    check_installed()
    paths = runs or [Path("runs")]
    runs_by_key = named_runs(paths)
    listening = listen(port)
    token = secrets.token_urlsafe(16)
    address = f"http://{ADDRESS}:{listening.getsockname()[1]}/#/?token={token}"
    out().print(
        f"{counted(len(runs_by_key), 'run')}. Open {address} in a browser; Ctrl-C ends this.",
        markup=False,
        soft_wrap=True,
    )
    if browser:
        webbrowser.open(address)
    with suppress(KeyboardInterrupt):  # the usual way to end it
        serve(paths, listening, token=token)
