"""`agentgym tasks`: task sets as files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

from agentgym.cli.screen import err, out
from agentgym.cli.user_code import Import

app = typer.Typer(help="Import data sets as task sets; look at task sets.", no_args_is_help=True)


@app.command("import")
def import_tasks(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Which format, e.g. mbpp.")],
    path: Annotated[Path, typer.Argument(metavar="PATH", help="The data set's file or folder.")],
    target: Annotated[Path, typer.Option("--out", metavar="FILE.jsonl", help="Where to write the task set.")],
    modules: Import = None,
) -> None:
    """Turn a public data set that you have on disk into a task set.

    Example: [b]agentgym tasks import mbpp mbpp.jsonl --out mbpp-tasks.jsonl[/b]
    """
    from agentgym import registry
    from agentgym.errors import TaskError

    importer = registry.load("importers", kind)
    if not path.exists():
        raise TaskError(f"There is no file or folder {path}. Download the data set first; nothing is fetched here.")
    if target.suffix not in (".jsonl", ".json"):
        raise TaskError(f"--out {target}: a task set is a .jsonl file.")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        task_set = importer(path)
    for warning in said:
        err().print(f"Note: {warning.message}", style="yellow", markup=False, soft_wrap=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    task_set.to_jsonl(target)
    sizes = ", ".join(f"{split} {len(task_set[split])}" for split in task_set if len(task_set[split]))
    out().print(f"{target}: {sizes}. Use it as --tasks {target}:SPLIT", markup=False, soft_wrap=True)


@app.command("show")
def show_tasks(
    name: Annotated[str, typer.Argument(metavar="SET", help="A task set by name, or a .jsonl file.")],
    count: Annotated[int, typer.Option(min=0, help="How many tasks of each split to print.")] = 2,
    modules: Import = None,
) -> None:
    """Print a task set's splits, its fingerprint and a few tasks.

    Example: [b]agentgym tasks show sql/store-v1[/b]
    """
    from agentgym import registry
    from agentgym.evaluation.visible import visible

    task_set, console = registry.load_task_set(name), out()
    console.print(f"{task_set.name}  fingerprint {task_set.fingerprint()}", markup=False)
    for split in task_set:
        tasks = task_set[split]
        console.print(f"\n{split}: {len(tasks)} tasks", style="bold", markup=False)
        for task in tasks[:count]:
            asked = visible(task.opening()[-1].text)
            told = asked if len(asked) <= 400 else asked[:400] + " ..."
            console.print(f"  {task.id}  [{', '.join(task.tags)}]  {told}", markup=False, soft_wrap=True)
