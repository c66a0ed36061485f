"""The command `agentgym check`: check that an environment keeps its contract, or that tasks can be judged."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from agentgym.cli import Import, err, out, run
from agentgym.text import counted, visible


def check(
    subject: Annotated[
        str, typer.Argument(metavar="ENVIRONMENT|FOLDER", help="A registered id, or a folder of tasks on disk.")
    ],
    tasks: Annotated[
        str | None, typer.Option("--task-set", metavar="SET", help="Tasks to check with; by default one that fits.")
    ] = None,
    importer: Annotated[str, typer.Option(metavar="IMPORTER", help="How a folder of tasks is read.")] = "harbor",
    modules: Import = None,
) -> None:
    """Run the conformance kit over an environment: determinism, isolation between episodes, rewards, closing.

    Of a folder, each task is played by scripts, as by `agentgym tasks import --validate`: its solution must be
    rewarded, and doing nothing and reward hacks must not.
    Example: agentgym check agentgym/sql-v1
    """
    if Path(subject).is_dir() and tasks is None:
        _check_folder(Path(subject), importer)
    else:
        _check_environment(subject, tasks)


def _check_environment(environment: str, tasks: str | None) -> None:
    from rich.text import Text

    from agentgym import ConformanceError, load

    from . import check_environment

    load("environments", environment)
    try:
        checked = run(check_environment(environment, tasks))
    except ConformanceError as error:
        err().print(
            Text(f"{error.subject} breaks its contract in {counted(len(error.findings), 'place')}:", style="bold red")
        )
        for finding in error.findings:
            err().print(Text(f"  - {visible(finding)}", style="red"), soft_wrap=True)
        raise typer.Exit(1) from error
    out().print(f"{environment} keeps its contract.", style="green", markup=False)
    for line in checked:
        out().print(f"  - {line}", markup=False)


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
