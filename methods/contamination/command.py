"""`agentgym tasks check`: which held-out tasks training has seen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli import Import, err, out
from agentgym.text import counted, percent

if TYPE_CHECKING:
    from agentgym import Task, TaskSet

MAX_SHOWN = 5


def check(
    name: Annotated[str, typer.Argument(metavar="SET", help="A task set by name, or a .jsonl file.")],
    against: Annotated[
        list[str] | None, typer.Option(metavar="SET", help="Also against the training tasks of this set. Repeatable.")
    ] = None,
    corpus: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Also look for held-out tasks in this text. Repeatable."),
    ] = None,
    threshold: Annotated[float, typer.Option(help="Share of word triples that makes a near duplicate.")] = 0.8,
    modules: Import = None,
) -> None:
    """Look for held-out tasks that training has seen: equal tasks, near duplicates, pieces in a corpus, canaries.

    Ends with exit code 1 where a held-out or validation task is in training word for word, or a corpus holds one.
    Example: agentgym tasks check sql/store-v1 --corpus pretraining.jsonl
    """
    from agentgym import load_task_set
    from agentgym.evaluation import Evaluation

    task_set, console = load_task_set(name), out()
    sizes = ", ".join(f"{split} {len(task_set[split])}" for split in task_set)
    console.print(f"{task_set.name}: {sizes}. Ids and content of the splits differ.", markup=False, soft_wrap=True)
    console.print(f"canary: {task_set.canary}", markup=False, soft_wrap=True)
    uses = Evaluation.count_held_out_uses(task_set)
    console.print(f"held-out tasks were evaluated {counted(uses, 'time')} on this machine", markup=False)
    leaked = 0
    for split in ("validation", "held_out"):
        leaked += _compare("train", list(task_set["train"]), split, list(task_set[split]), threshold)
    for other in against or []:
        theirs = list(load_task_set(other)["train"])
        leaked += _compare(f"{other}:train", theirs, "held_out", list(task_set["held_out"]), threshold)
    for path in corpus or []:
        leaked += _search(path, task_set)
    if leaked:
        err().print(f"{leaked} held-out tasks leak: results on them measure memory.", style="bold red", markup=False)
        raise typer.Exit(1)


def _compare(train_name: str, train: Sequence[Task], split: str, tasks: Sequence[Task], threshold: float) -> int:
    """Print similar tasks. Returns: the tasks that occur word for word in training."""
    from .comparison import contamination

    if not train or not tasks:
        return 0
    comparison, console = contamination(train, tasks, threshold=threshold), out()
    near = len(comparison.overlaps) - comparison.leaked
    summary = (
        f"{split} against {train_name}: {comparison.leaked} of {comparison.held_out} the same but for numbering, "
        f"{near} nearly so"
    )
    if comparison.told_apart_by_seed:
        summary += f"; {comparison.told_apart_by_seed} differ from others by a number alone, so their words say nothing"
    console.print(summary, style="red" if comparison.leaked else None, markup=False, soft_wrap=True)
    for overlap in comparison.overlaps[:MAX_SHOWN]:
        console.print(
            f"  {percent(overlap.similarity)}  {overlap.held_out}  like  {overlap.train}", markup=False, soft_wrap=True
        )
    if len(comparison.overlaps) > MAX_SHOWN:
        console.print(f"  and {len(comparison.overlaps) - MAX_SHOWN} more", markup=False)
    return comparison.leaked


def _search(path: Path, task_set: TaskSet) -> int:
    """Print which held-out tasks occur in a file. Returns: their number, or the number of canaries if larger."""
    from .comparison import search_corpus

    hits = search_corpus(list(task_set["held_out"]), _lines(path), canary=task_set.canary)
    summary = (
        f"{path}: {len(hits.tasks)} of {hits.held_out} held-out tasks in {hits.lines:,} lines, {hits.canaries} canaries"
    )
    out().print(summary, style="red" if hits.tasks or hits.canaries else None, markup=False, soft_wrap=True)
    for name, run in list(hits.tasks.items())[:MAX_SHOWN]:
        out().print(f"  {name}: ... {run} ...", markup=False, soft_wrap=True)
    return max(len(hits.tasks), hits.canaries)


def _lines(path: Path) -> Iterator[str]:
    from agentgym import TaskError

    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            yield from file
    except OSError as error:
        raise TaskError(f"Cannot read the corpus {path}: {error.strerror}.") from error
