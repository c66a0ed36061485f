"""`python -m agentgym.sandboxes.swe.bugs`: build a task set of bugs in real packages."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agentgym import AgentGymError, close_backends

from ..sources import fetch
from .build import BuildProgress, build
from .recipe import BugRecipe

PRINTED_EVERY_S = 10.0


def main(
    recipe: Annotated[
        Path | None, typer.Argument(help="A recipe of packages, such as recipes/tasks/swe-bugs.toml.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the tasks go.", metavar="FILE.jsonl")] = Path("bugs.jsonl"),
    concurrency: Annotated[int, typer.Option(min=1, help="Bugs tried at once.")] = 2,
    each: Annotated[int, typer.Option(min=1, help="Fewer tasks of each package, to try a recipe.")] = 10**6,
    only: Annotated[list[str] | None, typer.Option("--fetch", help="Only fetch the source of name==version.")] = None,
) -> None:
    """Build a task set of bugs, each caught by a test and fixed by its reverse. An interrupted build is resumed.

    Example: python -m agentgym.sandboxes.swe.bugs recipes/tasks/swe-bugs.toml --out bugs.jsonl
    """
    console = Console(stderr=True)
    try:
        for pinned in only or ():
            console.print(f"{pinned}: {fetch(pinned)}", soft_wrap=True)
        if recipe is not None:
            loaded = BugRecipe.load(recipe)
            asyncio.run(_build(replace(loaded, each=min(each, loaded.each)), out, concurrency, console))
        elif not only:
            console.print("Give a recipe, such as recipes/tasks/swe-bugs.toml, or --fetch name==version.")
            raise typer.Exit(2)
    except AgentGymError as error:
        console.print(f"Error: {error}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(2) from error


async def _build(recipe: BugRecipe, out: Path, concurrency: int, console: Console) -> None:
    began = time.monotonic()
    printed_s = -PRINTED_EVERY_S
    left_out: dict[str, str] = {}

    def show(progress: BuildProgress) -> None:
        nonlocal printed_s
        now = time.monotonic() - began
        if progress.ended or now - printed_s > PRINTED_EVERY_S:
            printed_s = now
            console.print(
                f"{now:.0f} s: {progress.all_tasks} tasks; {progress.package}: {progress.tasks} of {progress.target}, "
                f"{progress.tried} tried",
                soft_wrap=True,
                highlight=False,
            )

    try:
        task_set = await build(recipe, out, concurrency=concurrency, progress=show, left_out=left_out.__setitem__)
    finally:
        await close_backends()
        for package, reason in left_out.items():
            console.print(f"Left out {package}: {reason}", style="yellow", markup=False, soft_wrap=True)
    for split in task_set:
        if tasks := task_set[split]:
            kinds = Counter(task.tags[1] for task in tasks)
            console.print(
                f"{split}: {len(tasks)} tasks; " + ", ".join(f"{kind} {n}" for kind, n in kinds.most_common())
            )
    console.print(f"{out}: play it with --tasks {out}:SPLIT", soft_wrap=True)


if __name__ == "__main__":
    typer.run(main)
