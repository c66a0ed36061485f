"""The command `agentgym check`: check that an environment keeps its contract."""

from __future__ import annotations

from typing import Annotated

import typer

from agentgym.cli import Import, err, out, run
from agentgym.text import counted, visible


def check(
    environment: Annotated[str, typer.Argument(metavar="ENVIRONMENT", help="A registered id.")],
    tasks: Annotated[
        str | None, typer.Option("--task-set", metavar="SET", help="Tasks to check with; by default one that fits.")
    ] = None,
    modules: Import = None,
) -> None:
    """Run the conformance kit over an environment: determinism, isolation between episodes, rewards, closing.

    Example: agentgym check agentgym/sql-v1
    """
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


check.panel = "Tasks and sandboxes"  # type: ignore[attr-defined]
