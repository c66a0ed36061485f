"""`agentgym tasks`: task sets as files."""

from __future__ import annotations

import inspect
import json
import time
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.console import err, out, write_text
from agentgym.cli.fields import FieldsCommand, takes
from agentgym.cli.name_values import options_for
from agentgym.cli.user_code import Import
from agentgym.text import counted

if TYPE_CHECKING:
    from rich.progress import TaskID

    from agentgym.task.definition import Split
    from agentgym.task.task_set import TaskSet

app = typer.Typer(
    help="Import data sets as task sets; look at task sets; choose mixtures; find weak kinds.", no_args_is_help=True
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How a data set is imported, and where the task set is written."""

    target: Annotated[Path, typer.Option("--out", metavar="FILE.jsonl")]
    """Where to write the task set."""
    option: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE")] = None
    """An option of the importer, e.g. environment=agentgym/sql-duckdb-v1. Repeatable."""
    prompt: Annotated[str | None, typer.Option(metavar="COLUMN")] = None
    """The column with the question, for rows of your own (the importer rows)."""
    answer: Annotated[str | None, typer.Option(metavar="COLUMN")] = None
    """The column with the right answer."""
    database: Annotated[str | None, typer.Option(metavar="FILE|COLUMN")] = None
    """The SQLite file that the questions are about, or the column that names each row's file."""
    split: Annotated[str | None, typer.Option(metavar="SPLIT")] = None
    """The split of the tasks: train, validation or held_out. By default the importer chooses."""
    repositories: Annotated[Path | None, typer.Option(metavar="DIR")] = None
    """The folder of git clones, for sets of repositories."""
    validate: Annotated[bool, typer.Option("--validate")] = False
    """Build each task's environment. Keep a task if its gold solution is rewarded and doing nothing is not."""
    at_once: Annotated[int, typer.Option(min=1)] = 2
    """The number of tasks that are validated at the same time."""


@app.command("import", cls=FieldsCommand)
@takes(chosen=ImportOptions)
def import_tasks(
    importer_name: Annotated[str, typer.Argument(metavar="IMPORTER", help="Which format, e.g. mbpp.")],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The data set's file or folder.")],
    chosen: ImportOptions,
    modules: Import = None,
) -> None:
    """Turn a public data set that you have on disk into a task set.

    With --validate, invalid tasks are left out, and FILE.left_out.jsonl says why, one task a line. The results are kept
    in FILE.validated.jsonl: an interrupted validation continues when the command is repeated.
    Example: agentgym tasks import mbpp mbpp.jsonl --out mbpp-tasks.jsonl
    """
    from agentgym import registry
    from agentgym.errors import TaskError
    from agentgym.task.task_set import TaskSet

    target, repositories, at_once = chosen.target, chosen.repositories, chosen.at_once
    importer = registry.load("importers", importer_name)
    if not path.exists():
        raise TaskError(
            f"There is no file or folder {path}. Download the data set first: this command downloads nothing."
        )
    if target.suffix not in (".jsonl", ".json"):
        raise TaskError(f"--out {target} is not valid: a task set is written to a .jsonl file.")
    options = options_for(importer, chosen.option or [], "--option", f"the importer {importer_name}", positional=1)
    accepted = inspect.signature(importer).parameters
    if repositories is not None:
        if "mirrors" not in accepted:
            raise TaskError(
                f"--repositories {repositories} has no effect, because the importer {importer_name} reads no "
                "repositories. Leave it out."
            )
        options.setdefault("mirrors", str(repositories))
    for name in ("prompt", "answer", "database"):
        if (value := getattr(chosen, name)) is not None:
            if name not in accepted:
                raise TaskError(
                    f"--{name} {value} has no effect, because the importer {importer_name} reads files of one form "
                    "only. Leave it out."
                )
            options[name] = value
    split = _known_split(chosen.split)
    if split is not None and "split" in accepted:  # the importer may still assign some tasks to other splits
        options["split"] = split
    with warnings.catch_warnings(record=True) as notes, _Progress("environments") as bar:
        warnings.simplefilter("always")
        own = {"environments": True, "at_once": at_once, "progress": bar.update} if chosen.validate else {}
        task_set = importer(path, **{name: value for name, value in own.items() if name in accepted}, **options)
    if split is not None and "split" not in accepted:
        tasks = [replace(task, split=split) for tasks in task_set.values() for task in tasks]
        task_set = TaskSet(task_set.name, {split: tasks})
    left_out: dict[str, str] = {}
    for warning in notes:
        err().print(f"Note: {warning.message}", style="yellow", markup=False, soft_wrap=True)
        left_out |= getattr(warning.message, "reasons", {})
    target.parent.mkdir(parents=True, exist_ok=True)
    if chosen.validate:
        task_set = _validated(task_set, target, at_once, left_out)
    task_set.to_jsonl(target)
    sizes = ", ".join(f"{split} {len(task_set[split])}" for split in task_set if len(task_set[split]))
    out().print(f"{target}: {sizes}. Use it as --tasks {target}:SPLIT", markup=False, soft_wrap=True)


class _Progress:
    """Reports progress on standard error: a bar on a terminal, elsewhere an occasional line."""

    EVERY_S = 10.0

    def __init__(self, what: str) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Progress(*columns, TextColumn("{task.fields[note]}"), console=err())
        self._what = what
        self._row: TaskID | None = None
        self._told_at = -self.EVERY_S

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._row is not None:
            self._bars.stop()

    def update(self, done: int, total: int, faulty: int = 0) -> None:
        note = f"{faulty} left out" if faulty else ""
        if not err().is_terminal:
            if done == total or time.monotonic() - self._told_at >= self.EVERY_S:
                self._told_at = time.monotonic()
                err().print(f"{self._what}: {done} of {total}{note and ', '}{note}", markup=False)
            return
        if self._row is None:
            self._row = self._bars.add_task(self._what, total=total, note="")
            self._bars.start()
        self._bars.update(self._row, completed=done, note=note)


def _validated(task_set: TaskSet, target: Path, at_once: int, left_out: dict[str, str]) -> TaskSet:
    """Return the tasks that pass validation. Print why the others fail, and write the reasons to a file beside the
    task set.
    """
    import asyncio

    from agentgym import close_backends
    from agentgym.errors import TaskError
    from agentgym.evaluation.task_validation import task_faults
    from agentgym.task.task_set import TaskSet

    tasks = [task for split in task_set for task in task_set[split]]

    async def look(bar: _Progress) -> dict[str, str]:
        try:
            journal = target.with_name(target.name + ".validated.jsonl")
            return await task_faults(tasks, journal, at_once=at_once, progress=bar.update)
        finally:
            await close_backends()

    with _Progress("tasks") as bar:
        faults = asyncio.run(look(bar))
    reasons = {**left_out, **faults}
    lines = (json.dumps({"id": name, "reason": reason}) + "\n" for name, reason in reasons.items())
    write_text(target.with_name(target.name + ".left_out.jsonl"), "".join(lines))
    for name, reason in faults.items():
        err().print(f"left out {name}: {reason}", markup=False, soft_wrap=True)
    out().print(f"{len(tasks) - len(faults)} of {len(tasks) + len(left_out)} validated.", markup=False)
    if len(faults) == len(tasks):
        raise TaskError(
            f"No task of {task_set.name} passed validation on this machine. {target}.left_out.jsonl says why."
        )
    splits = {split: [task for task in task_set[split] if task.id not in faults] for split in task_set}
    return TaskSet(task_set.name, splits)


def _known_split(name: str | None) -> Split | None:
    """Return the split of this name. Raises: TaskError for a split that does not exist."""
    from agentgym.errors import TaskError
    from agentgym.task.definition import SPLITS

    split = next((split for split in SPLITS if split == name), None)
    if name is not None and split is None:
        raise TaskError(f"--split {name} is unknown. The splits are: {', '.join(SPLITS)}.")
    return split


@app.command("show")
def show_tasks(
    name: Annotated[str, typer.Argument(metavar="SET", help="A task set by name, or a .jsonl file.")],
    count: Annotated[int, typer.Option(min=0, help="How many tasks of each split to print.")] = 2,
    modules: Import = None,
) -> None:
    """Print a task set's splits, its fingerprint and a few tasks.

    Example: agentgym tasks show sql/store-v1
    """
    from agentgym import registry
    from agentgym.text import visible

    task_set, console = registry.load_task_set(name), out()
    console.print(f"{task_set.name}  fingerprint {task_set.fingerprint()}", markup=False)
    for split in task_set:
        tasks = task_set[split]
        console.print(f"\n{split}: {counted(len(tasks), 'task')}", style="bold", markup=False)
        for task in tasks[:count]:
            question = visible(task.opening()[-1].text)
            excerpt = question if len(question) <= 400 else question[:400] + " ..."
            console.print(f"  {task.id}  [{', '.join(task.tags)}]  {excerpt}", markup=False, soft_wrap=True)
