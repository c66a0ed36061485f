"""One-line descriptions of registered names, read from source files without importing them.

Importing everything registered takes many seconds (torch, transformers). `agentgym list` needs only the first line of
each docstring, so the module's source is parsed and never executed.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

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
