"""Every argument that a docstring describes is one that its function takes: a renamed argument is renamed there too."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator

from source_tree import source_files, syntax_tree, walk

_SECTION = re.compile(r"^Args:\n(.*?)(?=^\w|\Z)", re.MULTILINE | re.DOTALL)
_NAMES = re.compile(r"^    ([a-z_][a-z_0-9]*(?:, [a-z_][a-z_0-9]*)*): ", re.MULTILINE)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def described(node: ast.AST) -> set[str]:
    """Return the names that the docstring's section "Args" describes."""
    document = ast.get_docstring(node) or ""  # type: ignore[arg-type]  # only definitions and modules are asked
    section = _SECTION.search(inspect.cleandoc(document))
    return {name for names in _NAMES.findall(section[1] if section else "") for name in names.split(", ")}


def taken(function: Function) -> set[str] | None:
    """Return the names of a function's arguments; None if it takes any."""
    arguments = function.args
    if arguments.kwarg is not None:
        return None
    return {argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)} | (
        {arguments.vararg.arg} if arguments.vararg is not None else set()
    )


def functions(tree: ast.Module) -> Iterator[tuple[ast.AST, Function]]:
    """Yield each function with what documents it: itself or, for a constructor, its class."""
    for node in walk(tree):
        if isinstance(node, Function):
            yield node, node
        for method in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(method, Function) and method.name == "__init__":
                yield node, method


def test_every_argument_that_is_described_is_taken():
    unknown = []
    for path in source_files():
        for documented, function in functions(syntax_tree(path)):
            names = taken(function)
            if names is not None and (wrong := described(documented) - names):
                unknown.append(f"{path}:{function.lineno} describes {', '.join(sorted(wrong))}")
    assert not unknown, "\n".join(unknown)
