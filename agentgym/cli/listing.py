"""`agentgym list`: the names of everything that is registered."""

from __future__ import annotations

import ast
import inspect
import json
import sys
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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


MAX_HOPS = 6
"""The maximum imports and base classes to follow from a name to its docstring."""


def describe(kind: Any, name: str) -> str:
    """Return the first line of a registered object's docstring, or "" if it has none.

    For an object registered in this process use the object itself. For an entry point read its source file.
    """
    from agentgym import registry

    origin = registry.origin(kind, name)
    if origin is None:
        return _first_line(_docstring_of(registry.load(kind, name)))
    module, _, attribute = origin.partition(":")
    return _first_line(_search(module, attribute.partition(".")[0], MAX_HOPS))


def _docstring_of(registered: Any) -> str | None:
    return getattr(registered, "summary", None) or inspect.getdoc(registered)


def _first_line(docstring: str | None) -> str:
    return (docstring or "").strip().partition("\n")[0]


def _search(module: str, name: str, hops: int) -> str | None:
    """Return the docstring of `name` in `module`, following imports, base classes and calls like `grpo.preset(...)`."""
    tree = _parse(module)
    if tree is None or hops == 0:
        return None
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            return ast.get_docstring(node) or _of_base_class(module, node, hops)
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return _of_assigned(module, node.value, hops)
    for statement in ast.walk(tree):  # includes imports under TYPE_CHECKING, which name a lazy package's exports
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                if (alias.asname or alias.name) == name:
                    return _search(_absolute(module, statement), alias.name, hops - 1)
    return None


def _of_base_class(module: str, node: ast.AST, hops: int) -> str | None:
    bases = [base.id for base in getattr(node, "bases", ()) if isinstance(base, ast.Name)]
    return _search(module, bases[0], hops - 1) if bases else None


def _of_assigned(module: str, value: ast.expr, hops: int) -> str | None:
    """Describe `loop = rloo.preset("loop", turn_weight=0.0)` as "rloo with turn_weight=0.0"."""
    if isinstance(value, ast.Name):
        return _search(module, value.id, hops - 1)
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return None
    options = [k for k in value.keywords if k.arg not in (None, "source", "caution")]
    settings = ", ".join(f"{option.arg}={ast.unparse(option.value)}" for option in options)
    base = ast.unparse(value.func.value)
    return f"{base} with {settings}" if settings else f"{base} under another name"


def _absolute(module: str, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    package = module if _is_package(module) else module.rpartition(".")[0]
    for _ in range(node.level - 1):
        package = package.rpartition(".")[0]
    return f"{package}.{node.module}" if node.module else package


def _is_package(module: str) -> bool:
    spec = _spec(module)
    return spec is not None and spec.submodule_search_locations is not None


@cache
def _parse(module: str) -> ast.Module | None:
    spec = _spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    try:
        return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):  # a broken package must not hide the others
        return None


@cache
def _spec(module: str) -> ModuleSpec | None:
    """Find a module like an import, but without importing its parents, unlike `importlib.util.find_spec`."""
    parent, _, _ = module.rpartition(".")
    locations = None
    if parent:
        package = _spec(parent)
        locations = package.submodule_search_locations if package else None
        if locations is None:
            return None
    for finder in sys.meta_path:  # not only PathFinder: editable installations have their own finder
        spec = finder.find_spec(module, locations)
        if spec is not None:
            return spec
    return None
