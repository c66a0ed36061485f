"""`agentgym list`: the names of everything that is registered."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from agentgym.cli.console import out
from agentgym.cli.user_code import Import
from agentgym.errors import UnknownNameError

if TYPE_CHECKING:
    from agentgym.registry import Kind

GAP = 2
"""The spaces between two columns of names, and before the first."""


def list_names(
    kind: Annotated[str | None, typer.Argument(help="environments, task_sets, rewards, estimators, ...")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print names, descriptions and modules as JSON.")] = False,
    modules: Import = None,
) -> None:
    """List what is registered: all names, or one kind with a description of each.

    Example: agentgym list environments
    """
    from agentgym import registry

    kinds = [_kind(kind)] if kind else list(registry.KINDS)
    if as_json:
        out().print(json.dumps({each: _rows(each) for each in kinds}, indent=1), markup=False, soft_wrap=True)
    elif kind:
        _print_descriptions(kinds[0])
    else:
        _print_names(kinds)


def _kind(text: str) -> Kind:
    """Return a kind as the registry spells it: `environment`, `task-sets` and `task_sets` are all understood."""
    from agentgym import registry

    plain = text.replace("-", "_")
    for kind in registry.KINDS:
        if plain in (kind, kind.removesuffix("s"), kind.removesuffix("ies") + "y"):
            return kind
    raise UnknownNameError(f"There is no kind {text!r}. Kinds are: {', '.join(registry.KINDS)}.")


def _rows(kind: Kind) -> list[dict[str, str | None]]:
    from agentgym import registry
    from agentgym.cli.descriptions import describe

    return [
        {"name": name, "description": describe(kind, name), "entry_point": registry.origin(kind, name)}
        for name in registry.names(kind)
    ]


def _print_names(kinds: list[Kind]) -> None:
    from agentgym import registry

    console = out()
    for kind in kinds:
        names = registry.names(kind)
        console.print(f"{kind.replace('_', ' ')} ({len(names)})", style="bold", markup=False)
        for line in in_columns(names, console.width if console.is_terminal else 80):
            console.print(line, markup=False, soft_wrap=True)
    console.print("\nDescriptions of one kind: agentgym list environments", style="dim", markup=False, soft_wrap=True)


def _print_descriptions(kind: Kind) -> None:
    from rich.table import Table
    from rich.text import Text

    rows = _rows(kind)
    console = out()
    if not rows:
        console.print(f"Nothing is registered in {kind}.", markup=False)
        return
    if not console.is_terminal:  # one line for each name, so that grep and cut work
        width = max(len(str(row["name"])) for row in rows)
        for row in rows:
            line = f"{row['name']!s:<{width}}{' ' * GAP}{row['description']}".rstrip()
            console.print(line, markup=False, soft_wrap=True)
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Name", no_wrap=True)
    table.add_column("Description")
    for row in rows:
        table.add_row(Text(str(row["name"])), Text(str(row["description"])))
    console.print(table)


def in_columns(names: list[str], width: int) -> list[str]:
    """Lay out names in as many equal columns as fit, filled from top to bottom; never truncate names."""
    if not names:
        return []
    cell = max(map(len, names)) + GAP
    columns = max(1, (width - GAP) // cell)
    height = -(-len(names) // columns)
    lines = [names[start::height] for start in range(height)]
    return [(" " * GAP + "".join(f"{name:<{cell}}" for name in line)).rstrip() for line in lines]
