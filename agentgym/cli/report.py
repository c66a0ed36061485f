"""`agentgym report`: write a run's report page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentgym.cli.screen import out


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, e.g. runs/quickstart.")],
) -> None:
    """Write RUN/report.html: one page with the result, the learning curves and episodes to read.

    Example: [b]agentgym report runs/quickstart[/b]
    """
    from agentgym.episode.run_folder import RunFolder
    from agentgym.evaluation.report import write_report

    out().print(str(write_report(RunFolder.existing(run))), markup=False, soft_wrap=True)
