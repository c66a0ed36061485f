"""`agentgym export`: evaluations and episodes for other tools."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.console import out
from agentgym.cli.fields import takes

if TYPE_CHECKING:
    from agentgym.evaluation.record import Evaluation
    from agentgym.storage.ledger import Ledger
    from agentgym.trajectory.record import Trajectory

BUILT_IN = ("parquet", "preference", "sft")
"""The formats of this module; others are registered as exporters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What is exported, and how."""

    target: Annotated[Path, typer.Option("--out", metavar="FILE")]
    """Where to write."""
    kind: Annotated[str, typer.Option("--format", metavar="inspect|parquet|sft|preference")] = "parquet"
    """A log of Inspect, rows for `datasets`, or Parquet that TRL's SFTTrainer or DPOTrainer reads."""
    label: str | None = None
    """The evaluation to export; with parquet, by default all."""
    prefix: Annotated[str, typer.Option("--list", metavar="PREFIX")] = ""
    """parquet: export the episodes whose id begins with this text."""
    tokens: Annotated[bool, typer.Option("--tokens")] = False
    """parquet: also write token ids, masks and log-probabilities."""
    unsuccessful: Annotated[bool, typer.Option("--unsuccessful")] = False
    """sft: also write episodes that did not solve their task."""
    margin: Annotated[float, typer.Option(min=0.0)] = 0.0
    """preference: write a pair only if the chosen episode's return is higher by more than this."""
    max_pairs: Annotated[int, typer.Option(min=1)] = 4
    """preference: the maximum number of pairs per task."""


@takes(options=ExportOptions)
def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder with a ledger, e.g. runs/quickstart.")],
    options: ExportOptions,
) -> None:
    """Write an evaluation as a log that Inspect opens, or episodes as Parquet that `datasets` and trainers open.

    `sft` and `preference` hold episodes of training tasks alone.

    Example: agentgym export runs/quickstart --format inspect --label after --out after.json
    """
    from agentgym import registry
    from agentgym.errors import EvaluationError
    from agentgym.evaluation.export.parquet import write_parquet
    from agentgym.evaluation.record import Evaluation
    from agentgym.storage.ledger import Ledger
    from agentgym.storage.run_folder import RunFolder

    kind, label, target = options.kind, options.label, options.target
    exporter = None if kind in BUILT_IN else registry.load("exporters", kind)
    folder = RunFolder.existing(run)
    folder.existing_ledger()
    if exporter is not None and label is None:
        raise EvaluationError(
            f"--label is missing: name the evaluation to export. {folder.path} has "
            f"{', '.join(folder.evaluations()) or 'none'}."
        )
    evaluation = Evaluation.load(folder.path / "evaluation" / f"{label}.json") if label else None
    ledger = Ledger(folder.ledger)
    try:
        episodes = _episodes(ledger, evaluation, options.prefix)
        if exporter is not None:
            count = exporter(evaluation, episodes, target)
        elif kind == "parquet":
            task_set = "" if evaluation is None else evaluation.task_set
            count = write_parquet(episodes, target, task_set=task_set, tokens=options.tokens)
        else:
            count = _write_training_rows(options, episodes)
    finally:
        ledger.close()
    noun = "pairs" if kind == "preference" else "episodes"
    out().print(f"{target}: {count} {noun}", markup=False, soft_wrap=True)


def _episodes(ledger: Ledger, evaluation: Evaluation | None, prefix: str) -> Iterable[Trajectory]:
    """Return the episodes of an evaluation, or else the ledger's episodes whose id begins with the prefix."""
    if evaluation is None:
        return ledger.trajectories(prefix)
    ids = (f"{evaluation.run}/{row.task}#{i}" for row in evaluation.rows for i in range(len(row.success)))
    return (ledger.load(name) for name in ids)


def _write_training_rows(options: ExportOptions, episodes: Iterable[Trajectory]) -> int:
    from agentgym.evaluation.export.parquet import write_training_rows
    from agentgym.evaluation.export.training_rows import preference_rows, sft_rows

    if options.kind == "sft":
        nothing = "No episode of a training task has solved it. Export all of them by --unsuccessful."
        rows = sft_rows(episodes, unsuccessful=options.unsuccessful)
        return write_training_rows(rows, options.target, nothing)
    nothing = (
        "No two episodes of one training task differ by more than the margin. Pairs need several episodes of a task: "
        "play with --group-size."
    )
    rows = preference_rows(episodes, margin=options.margin, max_pairs=options.max_pairs)
    return write_training_rows(rows, options.target, nothing)
