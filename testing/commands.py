"""The command `agentgym check`: check that an environment keeps its contract, or that tasks can be judged."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, get_args

import typer

from agentgym import ConformanceError
from agentgym.cli import Import, err, out, run
from agentgym.text import counted, visible

from .block_guard import BlockGuard

_IMPORT = get_args(Import)[1]
ImportLater = Annotated[list[str] | None, typer.Option("--import", metavar=_IMPORT.metavar, help=_IMPORT.help)]
"""The option --import, without its callback: the guard watches the import."""


def check(
    subject: Annotated[
        str, typer.Argument(metavar="ENVIRONMENT|FOLDER", help="A registered id, or a folder of tasks on disk.")
    ],
    tasks: Annotated[
        str | None, typer.Option("--task-set", metavar="SET", help="Tasks to check with; by default one that fits.")
    ] = None,
    importer: Annotated[str, typer.Option(metavar="IMPORTER", help="How a folder of tasks is read.")] = "harbor",
    modules: ImportLater = None,
) -> None:
    """Run the conformance kit over an environment: determinism, isolation between episodes, rewards, closing.

    Of a folder, each task is played by scripts, as by `agentgym tasks import --validate`: its solution must be
    rewarded, and doing nothing and reward hacks must not.
    Example: agentgym check agentgym/sql-v1
    """
    try:
        with BlockGuard(f"environment {subject!r}"):
            _IMPORT.callback(modules)
        if Path(subject).is_dir() and tasks is None:
            _check_folder(Path(subject), importer)
        else:
            _check_environment(subject, tasks)
    except ConformanceError as error:
        _print_findings(error)
        raise typer.Exit(1) from error


def _check_environment(environment: str, tasks: str | None) -> None:
    with steps_of(environment) as note:
        checked = play_checks(environment, tasks, note)
    out().print(f"{environment} keeps its contract.", style="green", markup=False)
    for line in checked:
        out().print(f"  - {line}", markup=False)


def play_checks(environment: str, tasks: str | None, note: Callable[[str], None]) -> list[str]:
    """Check a registered environment as `check_environment` does, with a limit on what blocks.

    Args:
        note: called with each step before it begins.
    """
    from agentgym import load

    from . import check_environment

    with BlockGuard(f"environment {environment!r}") as guard:
        note("importing")
        load("environments", environment)
        return run(guard.watch(check_environment(environment, tasks, note=note)))


@contextmanager
def steps_of(subject: str) -> Iterator[Callable[[str], None]]:
    """Show the current step and its seconds on a terminal, or a line for each step elsewhere, on standard error."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = err()
    if not console.is_terminal:
        yield lambda step: console.print(f"{subject}: {step}", markup=False)
        return
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(subject)
        yield lambda step: progress.reset(bar, description=f"{subject}: {step}")


def _print_findings(error: ConformanceError) -> None:
    from rich.text import Text

    title = f"{error.subject} breaks its contract in {counted(len(error.findings), 'place')}:"
    err().print(Text(title, style="bold red"))
    for finding in error.findings:
        err().print(Text(f"  - {visible(finding)}", style="red"), soft_wrap=True)


def _check_folder(folder: Path, importer: str) -> None:
    from rich.text import Text

    from agentgym import load
    from agentgym.evaluation import validate_tasks

    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        task_set = load("importers", importer)(folder)
    lines: list[tuple[str, str]] = []
    for note in notes:
        unread = getattr(note.message, "reasons", {})
        lines += [(f"{name} cannot be read: {reason}", "red") for name, reason in unread.items()]
        if not unread:
            err().print(f"Note: {note.message}", style="yellow", markup=False, soft_wrap=True)
    for name, verdict in run(validate_tasks(task_set)).items():
        style = "green" if verdict.kind == "sound" else "red"
        lines.append((f"{name} is {verdict.kind}{verdict.reason and ': '}{verdict.reason}", style))
    for line, style in lines:
        out().print(Text(visible(line), style=style), soft_wrap=True)
    if any(style == "red" for _, style in lines):
        raise typer.Exit(1)


check.panel = "Tasks and sandboxes"  # type: ignore[attr-defined]
