"""`python -m agentgym.tasks.pages`: take the screenshots of `gui/pages-v1` again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from agentgym import AgentGymError, close_backends

from .camera import photograph_all
from .photographs import ARCHIVE, Photograph, write
from .visits import STRATA


def main(
    out: Annotated[Path, typer.Option(help="Path of the archive to write.", metavar="FILE.zip")] = Path(ARCHIVE),
) -> None:
    """Take screenshots of the pages in Chromium. With other fonts installed, boxes and tasks differ.

    Example: python -m agentgym.tasks.pages --out tasks/pages/pages.zip
    """
    console = Console(stderr=True)
    try:
        taken = asyncio.run(_photographs(console))
        write(out, taken)
    except AgentGymError as error:
        console.print(f"Error: {error}", style="red", markup=False, soft_wrap=True)
        raise typer.Exit(2) from error
    console.print(f"{len(taken)} photographs, {out.stat().st_size / 2**20:.1f} MiB: {out}", soft_wrap=True)


async def _photographs(console: Console) -> list[tuple[Photograph, bytes]]:
    try:
        with console.status("") as status:
            return await photograph_all(lambda so_far: status.update(f"{so_far} of {sum(STRATA.values())}"))
    finally:
        await close_backends()


if __name__ == "__main__":
    typer.run(main)
