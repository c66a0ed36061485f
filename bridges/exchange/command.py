"""`agentgym push` and `agentgym pull`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from agentgym.cli import err, out


def push_command(
    source: Annotated[Path, typer.Argument(help="A task set (FILE.jsonl), a run, or a folder.")],
    target: Annotated[str, typer.Argument(help="A new folder, git+URL[@BRANCH] or hf:OWNER/NAME.")],
    message: Annotated[str, typer.Option(metavar="TEXT", help="Says what is new.")] = "",
    public: Annotated[bool, typer.Option("--public", help="A new repository can be read by everybody.")] = False,
) -> None:
    """Push a task set, a run's model, or a package of environments, for others to pull.

    It becomes the whole content there, as a new revision, whose address is printed. Of a folder, files that begin with
    a dot and build folders stay here.

    Example: agentgym push runs/quickstart shared/quickstart
    """
    from .files import push

    with err().status(f"Pushing {source}"):
        address = push(source, target, message=message, private=not public)
    out().print(str(address), markup=False, highlight=False, soft_wrap=True)


def pull_command(
    source: Annotated[str, typer.Argument(help="A folder, git+URL or hf:OWNER/NAME, then [@REVISION][#PATH].")],
    to: Annotated[Path, typer.Option("--out", metavar="PATH", help="The new file or folder.")],
) -> None:
    """Pull a task set, a model or a package of environments; the address with its exact revision is printed.

    Example: agentgym pull shared/quickstart --out models/quickstart
    """
    from .files import pull

    with err().status(f"Pulling {source}"):
        address = pull(source, to)
    out().print(str(address), markup=False, highlight=False, soft_wrap=True)


push_command.panel = pull_command.panel = "Tasks and sandboxes"  # type: ignore[attr-defined]
