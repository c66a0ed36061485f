"""`agentgym tasks`: task sets as files."""

from __future__ import annotations

import hashlib
import inspect
import json
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agentgym.cli.console import err, out, progress_bar, run, write_text
from agentgym.cli.fields import FieldsCommand, takes
from agentgym.cli.name_values import options_for
from agentgym.cli.user_code import Import
from agentgym.text import counted

if TYPE_CHECKING:
    from agentgym.task.definition import Split, Task
    from agentgym.task.task_set import TaskSet

app = typer.Typer(
    help="Import data sets as task sets; look at task sets; choose mixtures; find weak kinds.", no_args_is_help=True
)

KEEPABLE = ("unsolved", "hackable", "flaky")
"""The verdicts of a validation, besides sound, whose tasks may be kept."""


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
    """The split of the tasks: train, validation or held_out; by default the importer chooses. validation:20,held_out:30
    draws as many tasks for these splits, by their ids, and leaves the others for training."""
    repositories: Annotated[Path | None, typer.Option(metavar="DIR")] = None
    """The folder of git clones, for sets of repositories."""
    validate: Annotated[bool, typer.Option("--validate")] = False
    """Play each task with scripts. Keep a task if its solution is rewarded, and doing nothing and cheating are not."""
    keep: Annotated[list[str] | None, typer.Option(metavar="VERDICT")] = None
    """Keep tasks of this verdict too: unsolved (no solution to try), hackable or flaky. Repeatable."""
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

    With --validate, tasks that fail are left out, and FILE.verdicts.jsonl has the verdict on each task, one a line.
    Verdicts are kept in FILE.validated.jsonl: an interrupted validation continues when the command is repeated.
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
    sizes = _split_sizes(chosen.split or "")
    split, keep = (_known_split(chosen.split) if not sizes else None), chosen.keep or []
    if unknown := [kind for kind in keep if kind not in KEEPABLE]:
        raise TaskError(f"--keep {unknown[0]} is not valid. A validation can keep: {', '.join(KEEPABLE)}.")
    if keep and not chosen.validate:
        raise TaskError(f"--keep {keep[0]} has no effect without --validate, which reaches the verdicts.")
    if split is not None and "split" in accepted:  # the importer may still assign some tasks to other splits
        options["split"] = split
    with warnings.catch_warnings(record=True) as notes, progress_bar() as bar:
        warnings.simplefilter("always")
        own: dict[str, Any] = {"environments": True, "at_once": at_once} if chosen.validate else {}
        if "progress" in accepted and (chosen.validate or "environments" not in accepted):
            row = bar.add_task("imported", total=None)
            own["progress"] = lambda done, total, left_out: bar.update(
                row, completed=done, total=total, note=f"{left_out} left out" if left_out else ""
            )
        task_set = importer(path, **{name: value for name, value in own.items() if name in accepted}, **options)
    if split is not None and "split" not in accepted:
        tasks = [replace(task, split=split) for tasks in task_set.values() for task in tasks]
        task_set = TaskSet(task_set.name, {split: tasks}, oracle=task_set.oracle)
    left_out: dict[str, str] = {}
    for warning in notes:
        left_out |= getattr(warning.message, "reasons", {})
        if not getattr(warning.message, "reasons", {}):
            err().print(f"Note: {warning.message}", style="yellow", markup=False, soft_wrap=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    if chosen.validate:
        task_set = _validated(task_set, target, at_once, keep, left_out)
    else:
        _print_reasons({name: ("left out", reason) for name, reason in left_out.items()})
    if sizes:
        task_set = _divided(task_set, sizes)
    task_set.to_jsonl(target)
    listed = ", ".join(f"{split} {len(task_set[split])}" for split in task_set if len(task_set[split]))
    out().print(f"{target}: {listed}. Use it as --tasks {target}:SPLIT", markup=False, soft_wrap=True)


def _divided(task_set: TaskSet, sizes: Mapping[Split, int]) -> TaskSet:
    """Return the set with as many tasks in each split, the same ones at every import, and the others in `train`.

    Raises: TaskError if no task is left to train on.
    """
    from agentgym.errors import TaskError

    tasks = {task.id: task for tasks in task_set.values() for task in tasks}
    if sum(sizes.values()) >= len(tasks):
        raise TaskError(
            f"--split takes {sum(sizes.values())} of {len(tasks)} tasks, so none is left for training. Take fewer."
        )
    ranked = sorted(tasks, key=lambda name: hashlib.sha256(name.encode()).digest())
    split_of: dict[str, Split] = {}
    for split, size in sizes.items():
        start = len(split_of)
        split_of |= dict.fromkeys(ranked[start : start + size], split)
    splits: dict[str, list[Task]] = {}
    for name, task in tasks.items():
        split = split_of.get(name, "train")
        splits.setdefault(split, []).append(replace(task, split=split))
    return task_set.with_splits(splits)


def _validated(
    task_set: TaskSet, target: Path, at_once: int, keep: Sequence[str], left_out: Mapping[str, str]
) -> TaskSet:
    """Return the tasks that pass validation, or have a verdict to keep. Write the verdict on each task to a file beside
    the task set, and print a table of the reasons.

    Args:
        left_out: why the importer left items out, by name.
    Raises: TaskError if no task is kept.
    """
    from agentgym.errors import TaskError
    from agentgym.evaluation.task_validation import Verdict, validate_tasks
    from agentgym.task.task_set import TaskSet

    journal = target.with_name(target.name + ".validated.jsonl")
    with progress_bar() as bar:
        row = bar.add_task("validated", total=sum(len(task_set[split]) for split in task_set))

        def update(done: int, total: int, kinds: Counter[str]) -> None:
            bar.update(row, completed=done, total=total, note=", ".join(f"{n} {kind}" for kind, n in kinds.items()))

        verdicts = run(validate_tasks(task_set, journal, at_once=at_once, progress=update))
    unread = {name: Verdict("faulty", reason) for name, reason in left_out.items()}
    all_verdicts = {**unread, **verdicts}
    lines = (json.dumps({"id": name, **asdict(verdict)}) + "\n" for name, verdict in all_verdicts.items())
    write_text(target.with_name(target.name + ".verdicts.jsonl"), "".join(lines))
    _print_reasons({name: (v.kind, v.reason) for name, v in all_verdicts.items() if v.kind != "sound"})
    sound = sum(verdict.kind == "sound" for verdict in verdicts.values())
    out().print(f"{sound} of {len(all_verdicts)} validated.", markup=False)
    kinds: Counter[str] = Counter(verdict.kind for verdict in verdicts.values())
    if kinds["undecided"]:
        err().print(f"{kinds['undecided']} undecided: this host failed. Repeat the command to try them again.")
    accepted = ("sound", *keep)
    splits = {split: [task for task in task_set[split] if verdicts[task.id].kind in accepted] for split in task_set}
    if not any(splits.values()):
        offer = next((f"; --keep {kind} would keep {kinds[kind]} of them" for kind in KEEPABLE if kinds[kind]), "")
        raise TaskError(
            f"No task of {task_set.name} passed validation on this machine{offer}. {target}.verdicts.jsonl says why."
        )
    return TaskSet(task_set.name, splits)


def _print_reasons(reasons: Mapping[str, tuple[str, str]]) -> None:
    """Print how many tasks have the same kind of reason, with an example of each. `reasons`: kind and reason by id."""
    from rich.table import Table
    from rich.text import Text

    from agentgym.evaluation.task_validation import summarise_reason
    from agentgym.text import visible

    if not reasons:
        return
    groups: dict[tuple[str, str], list[str]] = {}
    for name, (kind, reason) in reasons.items():
        groups.setdefault((kind, summarise_reason(reason)), []).append(name)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("Tasks", "Verdict", "Reason", "Example"):
        table.add_column(column, justify="right" if column == "Tasks" else "left")
    for (kind, summary), names in sorted(groups.items(), key=lambda group: -len(group[1])):
        table.add_row(str(len(names)), kind, Text(visible(summary)), Text(visible(names[0])))
    err().print(table)


def _split_sizes(text: str) -> dict[Split, int]:
    """Return the sizes in a text such as `validation:20,held_out:30`; nothing for the name of a split. Raises:
    TaskError.
    """
    from agentgym.errors import TaskError

    sizes: dict[Split, int] = {}
    for part in text.split(",") if ":" in text else ():
        name, _, size = part.partition(":")
        split = _known_split(name)
        if split is None or split == "train" or not size.isdecimal():
            raise TaskError(
                f"--split {text} is not valid. Write the sizes of validation and held_out, such as "
                "validation:20,held_out:30; the other tasks are for training."
            )
        sizes[split] = int(size)
    return sizes


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
