"""The source tree as the rules see it: tracked files, the modules they are, and what each imports."""

from __future__ import annotations

import ast
import subprocess
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ("recipes", "examples")
"""Folders without packages that the wheel holds."""
CONTENT = ("sandboxes", "tasks", "rewards", "methods", "bridges", "formats", "testing")


@dataclass(frozen=True, slots=True)
class Import:
    """One imported module: its dotted name (relative ones resolved), the line, and whether a function imports it."""

    module: str
    line: int
    in_function: bool
    relative: bool


@cache
def project() -> dict[str, Any]:
    """pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@cache
def tracked_files() -> tuple[Path, ...]:
    """Every file of the project relative to its root: what git tracks or would add, without ignored ones."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    paths = (Path(name) for name in listed.decode().split("\0") if name)
    return tuple(sorted(path for path in paths if (ROOT / path).is_file()))


def package_folders() -> dict[str, Path]:
    """Dotted package names by their folder: `{"agentgym.sandboxes.sql": Path("sandboxes/sql"), ...}`, from the tree."""
    return {module_name(path): path.parent for path in package_files() if path.name == "__init__.py"}


def package_files() -> list[Path]:
    """Every file in the framework and the content folders, of whatever kind."""
    return [path for path in tracked_files() if path.parts[0] in ("agentgym", *CONTENT)]


def shipped_files() -> list[Path]:
    """Every file that the wheel holds: those of the packages, and recipes and examples."""
    return [*package_files(), *(path for path in tracked_files() if path.parts[0] in SHIPPED)]


def source_files() -> list[Path]:
    """Every Python file in the framework and the content folders."""
    return [path for path in package_files() if path.suffix == ".py"]


def module_name(path: Path) -> str:
    """The dotted name a file has when installed: `sandboxes/sql/engine.py` is `agentgym.sandboxes.sql.engine`."""
    parts = path.with_suffix("").parts
    parts = parts if parts[0] == "agentgym" else ("agentgym", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def syntax_tree(path: Path) -> ast.Module:
    return ast.parse((ROOT / path).read_text(), filename=str(path))


@cache
def walk(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Every node of a module, as `ast.walk` yields them: a dozen rules look at each of the million nodes."""
    return tuple(ast.walk(tree))


def imports_of(path: Path) -> list[Import]:
    """Every import statement of a file: see `imports_in`."""
    return list(_imports_of(path))


@cache
def _imports_of(path: Path) -> tuple[Import, ...]:
    return tuple(imports_in(syntax_tree(path), path))


def imports_in(tree: ast.Module, path: Path) -> list[Import]:
    """Every import statement of a tree that stands at `path`, those in functions and under TYPE_CHECKING too.

    `from agentgym import tool` counts as an import of the module that holds `tool`; `from agentgym.a import b`
    as one of `agentgym.a.b` where that is a module.
    """
    imports: list[Import] = []
    _collect(tree, path, False, imports)
    return imports


def _collect(node: ast.AST, path: Path, in_function: bool, imports: list[Import]) -> None:
    """Add the import statements below a node; only statements are entered, since no expression holds an import."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            imports += [Import(alias.name, child.lineno, in_function, False) for alias in child.names]
        elif isinstance(child, ast.ImportFrom):
            base = _absolute(child, path)
            names = [_resolve(base, alias.name) for alias in child.names]
            imports += [Import(name, child.lineno, in_function, child.level > 0) for name in dict.fromkeys(names)]
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            _collect(child, path, in_function or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef), imports)


def _absolute(statement: ast.ImportFrom, path: Path) -> str:
    if not statement.level:
        return statement.module or ""
    package = module_name(path).split(".")
    package = package if path.name == "__init__.py" else package[:-1]
    package = package[: len(package) - (statement.level - 1)]
    return ".".join([*package, *([statement.module] if statement.module else [])])


def _resolve(base: str, name: str) -> str:
    if base == "agentgym":
        import agentgym

        return f"agentgym.{agentgym._WHERE.get(name, name)}"
    return f"{base}.{name}" if f"{base}.{name}" in _module_names() else base


@cache
def _module_names() -> frozenset[str]:
    return frozenset(module_name(path) for path in source_files())
