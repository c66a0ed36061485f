"""`python -m agentgym.sandboxes.swe.bugs`: build a task set of bugs in real packages."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from agentgym import AgentGymError, close_backends

from ..sources import fetch
from .build import BugRecipe, BuildProgress, build


def main(
    recipe: Annotated[
        Path | None, typer.Argument(help="A recipe of packages, such as recipes/tasks/swe-bugs.toml.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the tasks go.", metavar="FILE.jsonl")] = Path("bugs.jsonl"),
    concurrency: Annotated[int, typer.Option(min=1, help="Bugs tried at once.")] = 2,
    only: Annotated[list[str] | None, typer.Option("--fetch", help="Only fetch the source of name==version.")] = None,
) -> None:
    """Build a task set of bugs, each caught by a test and mended by its reverse. A build broken off goes on.

    Example: python -m agentgym.sandboxes.swe.bugs recipes/tasks/swe-bugs.toml --out bugs.jsonl
    """
    console = Console(stderr=True)
    try:
        for pinned in only or ():
            console.print(f"{pinned}: {fetch(pinned)}", soft_wrap=True)
        if recipe is not None:
            asyncio.run(_build(BugRecipe.load(recipe), out, concurrency, console))
        elif not only:
            console.print("Give a recipe, such as recipes/tasks/swe-bugs.toml, or --fetch name==version.")
            raise typer.Exit(2)
    except AgentGymError as error:
        console.print(f"Error: {error}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(2) from error


async def _build(recipe: BugRecipe, out: Path, concurrency: int, console: Console) -> None:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, TextColumn("{task.fields[note]}"), console=console) as bars:
        rows = {
            package.pinned: bars.add_task(package.pinned, total=recipe.each, note="") for package in recipe.packages
        }

        def show(progress: BuildProgress) -> None:
            bars.update(rows[progress.package], completed=progress.tasks, note=f"{progress.tried} tried")

        try:
            task_set = await build(recipe, out, concurrency=concurrency, progress=show)
        finally:
            await close_backends()
    for split in task_set:
        if tasks := task_set[split]:
            kinds = Counter(task.tags[1] for task in tasks)
            console.print(
                f"{split}: {len(tasks)} tasks; " + ", ".join(f"{kind} {n}" for kind, n in kinds.most_common())
            )
    console.print(f"{out}: play it with --tasks {out}:SPLIT", soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
