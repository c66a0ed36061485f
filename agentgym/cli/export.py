"""`agentgym export`: evaluations and episodes for other tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.cli.console import out

if TYPE_CHECKING:
    from agentgym.evaluation.record import Evaluation
    from agentgym.storage.ledger import Ledger
    from agentgym.trajectory import Trajectory

BUILT_IN = ("parquet", "preference", "sft")
"""The formats of this module; others are registered as exporters."""


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder with a ledger, e.g. runs/quickstart.")],
    target: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write.")],
    kind: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="inspect|parquet|sft|preference",
            help="A log of Inspect, rows for `datasets`, or Parquet that TRL's SFTTrainer or DPOTrainer reads.",
        ),
    ] = "parquet",
    label: Annotated[str | None, typer.Option(help="The evaluation to export; with parquet, by default all.")] = None,
    prefix: Annotated[str, typer.Option("--list", metavar="PREFIX", help="parquet: episodes whose id begins so.")] = "",
    tokens: Annotated[bool, typer.Option("--tokens", help="parquet: token ids, masks, log-probabilities.")] = False,
    unsuccessful: Annotated[
        bool, typer.Option("--unsuccessful", help="sft: also episodes that did not solve their task.")
    ] = False,
    margin: Annotated[
        float, typer.Option(min=0.0, help="preference: the chosen episode's return is higher by more than this.")
    ] = 0.0,
    max_pairs: Annotated[int, typer.Option(min=1, help="preference: pairs of a task.")] = 4,
) -> None:
    """Write an evaluation as a log that Inspect opens, or episodes as Parquet that `datasets` and trainers open.

    `sft` and `preference` hold episodes of training tasks alone.

    Example: [b]agentgym export runs/quickstart --format inspect --label after --out after.json[/b]
    """
    from agentgym import registry
    from agentgym.errors import EvaluationError
    from agentgym.evaluation.export import write_parquet
    from agentgym.evaluation.record import Evaluation
    from agentgym.storage.ledger import Ledger
    from agentgym.storage.run_folder import RunFolder

    exporter = None if kind in BUILT_IN else registry.load("exporters", kind)
    folder = RunFolder.existing(run)
    if not folder.ledger.is_file():
        raise EvaluationError(f"{folder.path} holds no ledger.sqlite: this run kept no episodes.")
    if exporter is not None and label is None:
        raise EvaluationError(
            f"--label: which evaluation? {folder.path} has {', '.join(folder.evaluations()) or 'none'}."
        )
    evaluation = Evaluation.load(folder.path / "evaluation" / f"{label}.json") if label else None
    ledger = Ledger(folder.ledger)
    try:
        episodes = _episodes(ledger, evaluation, prefix)
        if exporter is not None:
            count = exporter(evaluation, episodes, target)
        elif kind == "parquet":
            task_set = "" if evaluation is None else evaluation.task_set
            count = write_parquet(episodes, target, task_set=task_set, tokens=tokens)
        else:
            options = {"unsuccessful": unsuccessful} if kind == "sft" else {"margin": margin, "max_pairs": max_pairs}
            count = _write_training_rows(kind, target, episodes, options)
    finally:
        ledger.close()
    noun = "pairs" if kind == "preference" else "episodes"
    out().print(f"{target}: {count} {noun}", markup=False, soft_wrap=True)


def _episodes(ledger: Ledger, evaluation: Evaluation | None, prefix: str) -> Iterable[Trajectory]:
    """Those of an evaluation, or those of the ledger whose id begins so."""
    if evaluation is None:
        return ledger.trajectories(prefix)
    ids = (f"{evaluation.run}/{row.task}#{i}" for row in evaluation.rows for i in range(len(row.success)))
    return (ledger.load(name) for name in ids)


def _write_training_rows(kind: str, target: Path, episodes: Iterable[Trajectory], options: Mapping[str, Any]) -> int:
    from agentgym.evaluation.export.parquet import write_training_rows
    from agentgym.evaluation.export.training_rows import preference_rows, sft_rows

    if kind == "sft":
        nothing = "No episode of a training task has solved it. Export all of them by --unsuccessful."
        return write_training_rows(sft_rows(episodes, **options), target, nothing)
    nothing = (
        "No two episodes of one training task differ by more than the margin. Pairs need several episodes of a task: "
        "play with --group-size."
    )
    return write_training_rows(preference_rows(episodes, **options), target, nothing)
