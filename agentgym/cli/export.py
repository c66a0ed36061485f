"""`agentgym export`: evaluations and episodes for other tools, written by what is registered under `exporters`.

An exporter is a function of an evaluation (None without --label), its episodes, and the path of the file to write.
Its keyword-only arguments are its options. It returns the number of rows that it has written.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.console import out, replaced_when_done
from agentgym.cli.fields import takes
from agentgym.deprecation import warn_renamed
from agentgym.text import counted

if TYPE_CHECKING:
    from agentgym.evaluation.record import Evaluation
    from agentgym.storage.ledger import Ledger
    from agentgym.trajectory.record import Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What is exported, and how."""

    target: Annotated[Path, typer.Option("--out", metavar="FILE")]
    """Where to write."""
    kind: Annotated[str, typer.Option("--format", metavar="NAME")] = "parquet"
    """An exporter with its options: inspect, parquet(tokens=True), sft(unsuccessful=True), preference(margin=0.5)."""
    label: str | None = None
    """The evaluation to export; by default the episodes of all."""
    prefix: Annotated[str, typer.Option("--list", metavar="PREFIX")] = ""
    """Without --label: export the episodes whose id begins with this text."""
    tokens: Annotated[bool, typer.Option("--tokens", hidden=True)] = False
    """Deprecated: write --format "parquet(tokens=True)"."""
    unsuccessful: Annotated[bool, typer.Option("--unsuccessful", hidden=True)] = False
    """Deprecated: write --format "sft(unsuccessful=True)"."""
    margin: Annotated[float | None, typer.Option(hidden=True)] = None
    """Deprecated: write --format "preference(margin=0.5)"."""
    max_pairs: Annotated[int | None, typer.Option(hidden=True)] = None
    """Deprecated: write --format "preference(max_pairs=4)"."""

    def exporter(self) -> str:
        """Return the exporter with its options; those with an option of the command of their own warn."""
        old = {name: getattr(self, name) for name in ("tokens", "unsuccessful", "margin", "max_pairs")}
        if not (given := {name: value for name, value in old.items() if value}):
            return self.kind
        new = f"{self.kind}({', '.join(f'{name}={value!r}' for name, value in given.items())})"
        warn_renamed(" ".join("--" + name.replace("_", "-") for name in given), f'--format "{new}"')
        return new


@takes(options=ExportOptions)
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder with a ledger, e.g. runs/quickstart.")],
    options: ExportOptions,
) -> None:
    """Write an evaluation as a log that Inspect opens, or episodes as Parquet that `datasets` and trainers open.

    `agentgym list exporters` names the formats. `sft` and `preference` hold episodes of training tasks alone.

    Example: agentgym export runs/quickstart --format inspect --label after --out after.json
    """
    from agentgym.cli.run_ledger import open_run
    from agentgym.credit.named_parts import load_named_part
    from agentgym.errors import EvaluationError
    from agentgym.evaluation.record import Evaluation

    exporter, target = load_named_part("exporters", options.exporter()), options.target
    folder, ledger = open_run(run)
    with closing(ledger), replaced_when_done(target) as partial:
        evaluation = Evaluation.of_run(folder, options.label) if options.label else None
        count = exporter(evaluation, _episodes(ledger, evaluation, options.prefix), partial)
        if not count:
            raise EvaluationError(f"{folder.path} has no episode to export.")
    out().print(f"{target}: {counted(count, 'row')}", markup=False, soft_wrap=True)


def _episodes(ledger: Ledger, evaluation: Evaluation | None, prefix: str) -> Iterable[Trajectory]:
    """Return the episodes of an evaluation, or else the ledger's episodes whose id begins with the prefix."""
    if evaluation is None:
        return ledger.trajectories(prefix)
    ids = (f"{evaluation.run}/{row.task}#{i}" for row in evaluation.rows for i in range(len(row.success)))
    return (ledger.load(name) for name in ids)
