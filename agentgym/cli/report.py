"""`agentgym report`: write a run's report page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentgym.cli.console import out


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
