"""`agentgym list`: everything that is registered."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer

from agentgym.cli.screen import err, out
from agentgym.cli.user_code import Import
from agentgym.errors import UnknownNameError


def list_names(
    kind: Annotated[str | None, typer.Argument(help="environments, task_sets, rewards, estimators, ...")] = None,
    modules: Import = None,
) -> None:
    """List what is registered: environments, task sets, rewards, estimators, policies and more.

    Example: [b]agentgym list environments[/b]
    """
    from rich.table import Table
    from rich.text import Text

    from agentgym import registry

    if kind is not None:
        kind = kind.replace("-", "_")
        kind = kind if kind in registry.KINDS else f"{kind}s"
        if kind not in registry.KINDS:
            raise UnknownNameError(f"There is no kind {kind[:-1]!r}. Kinds: {', '.join(registry.KINDS)}.")
    kinds = [kind] if kind else list(registry.KINDS)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Kind", style="cyan", no_wrap=True)
    table.add_column("Name", no_wrap=True)
    table.add_column("What it is")
    broken = 0
    for each in kinds:
        shown = each.replace("_", " ")
        for name in registry.names(each):
            try:
                told = Text(_first_line(registry.load(each, name)))
            except Exception as error:  # noqa: BLE001 - one broken package must not hide all the others
                told, broken = Text(f"cannot be loaded: {type(error).__name__}: {error}", style="red"), broken + 1
            table.add_row(shown, Text(name), told)
            shown = ""
    out().print(table if table.row_count else f"Nothing is registered in {', '.join(kinds)}.")
    if broken:
        err().print(f"{broken} cannot be loaded: see above.", style="yellow")


def _first_line(thing: Any) -> str:
    """The first line of what it says about itself; a declared estimator has a summary."""
    text = getattr(thing, "summary", None) or inspect.getdoc(thing) or ""
    return str(text).strip().split("\n")[0]
