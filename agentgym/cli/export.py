"""`agentgym export`: evaluations and episodes for other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from agentgym.cli.console import out

if TYPE_CHECKING:
    from agentgym.evaluation.record import Evaluation
    from agentgym.storage.ledger import Ledger


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder with a ledger, e.g. runs/quickstart.")],
    target: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write.")],
    kind: Annotated[
        Literal["inspect", "parquet"], typer.Option("--format", help="A log of Inspect, or rows for `datasets`.")
    ] = "parquet",
    label: Annotated[str | None, typer.Option(help="The evaluation to export; with parquet, by default all.")] = None,
    prefix: Annotated[str, typer.Option("--list", metavar="PREFIX", help="parquet: episodes whose id begins so.")] = "",
    tokens: Annotated[bool, typer.Option("--tokens", help="parquet: token ids, masks, log-probabilities.")] = False,
) -> None:
    """Write an evaluation as a log that Inspect opens, or episodes as Parquet that `datasets` opens.

    Example: [b]agentgym export runs/quickstart --format inspect --label after --out after.json[/b]
    """
    from agentgym.errors import EvaluationError
    from agentgym.evaluation.record import Evaluation
    from agentgym.storage.ledger import Ledger
    from agentgym.storage.run_folder import RunFolder

    folder = RunFolder.existing(run)
    if not folder.ledger.is_file():
        raise EvaluationError(f"{folder.path} holds no ledger.sqlite: this run kept no episodes.")
    if kind == "inspect" and label is None:
        raise EvaluationError(
            f"--label: which evaluation? {folder.path} has {', '.join(folder.evaluations()) or 'none'}."
        )
    evaluation = Evaluation.load(folder.path / "evaluation" / f"{label}.json") if label else None
    ledger = Ledger(folder.ledger)
    try:
        count = _write(kind, target, ledger, evaluation, prefix, tokens)
    finally:
        ledger.close()
    out().print(f"{target}: {count} episodes", markup=False, soft_wrap=True)


def _write(kind: str, target: Path, ledger: Ledger, evaluation: Evaluation | None, prefix: str, tokens: bool) -> int:
    from agentgym.evaluation.export.inspect_log import inspect_log
    from agentgym.evaluation.export.parquet import write_parquet

    if evaluation is None:
        return write_parquet(ledger.trajectories(prefix), target, tokens=tokens)
    ids = (f"{evaluation.run}/{row.task}#{i}" for row in evaluation.rows for i in range(len(row.success)))
    trajectories = (ledger.load(name) for name in ids)
    if kind == "parquet":
        return write_parquet(trajectories, target, task_set=evaluation.task_set, tokens=tokens)
    log = inspect_log(evaluation, trajectories)
    partial = target.with_name(target.name + ".partial")
    partial.parent.mkdir(parents=True, exist_ok=True)
    partial.write_text(json.dumps(log, ensure_ascii=True), encoding="utf-8")
    partial.replace(target)
    return len(log["samples"])
