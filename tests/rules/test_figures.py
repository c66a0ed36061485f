"""Figures of the framework that may only fall: lower a limit here when the code is below it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from public_line import public_names
from source_tree import CONTENT, source_files, syntax_tree, walk

MOST_PUBLIC_NAMES = 253
MOST_FUNCTIONS_WITH_MANY_PARAMETERS = 20
MANY_PARAMETERS = 8
MOST_PARAMETERS_THAT_ARE_A_RECIPE = 10
MOST_IMPORTED_MODULES = 20

FRAMEWORK = [path for path in source_files() if path.parts[0] == "agentgym"]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions() -> Iterator[tuple[str, Function]]:
    """Each function of the framework and its place."""
    for path in FRAMEWORK:
        for node in walk(syntax_tree(path)):
            if isinstance(node, Function):
                yield f"{path}:{node.lineno} {node.name}", node


def parameters(function: Function) -> list[ast.arg]:
    """The named parameters of a function but `self` and `cls`."""
    arguments = function.args
    named = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return [argument for argument in named if argument.arg not in ("self", "cls")]


def test_the_framework_has_no_more_public_names_than_before():
    content = tuple(f"agentgym.{folder}" for folder in CONTENT)
    names = {name for package, own in public_names().items() if not package.startswith(content) for name in own}
    assert len(names) <= MOST_PUBLIC_NAMES


def test_no_more_functions_have_many_parameters():
    places = [place for place, function in functions() if len(parameters(function)) >= MANY_PARAMETERS]
    assert len(places) <= MOST_FUNCTIONS_WITH_MANY_PARAMETERS, "\n".join(places)


def test_no_more_functions_take_a_whole_recipe():
    places = [
        place
        for place, function in functions()
        for parameter in parameters(function)
        if parameter.annotation is not None and ast.unparse(parameter.annotation) in ("Recipe", "Recipe | None")
    ]
    assert len(places) <= MOST_PARAMETERS_THAT_ARE_A_RECIPE, "\n".join(places)


def test_no_file_imports_more_modules_of_the_framework():
    imports = {
        str(path): {
            node.module
            for node in walk(syntax_tree(path))
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agentgym")
        }
        for path in FRAMEWORK
        if path.parts[1:] != ("__init__.py",)  # an index: it names modules for type checkers alone
    }
    assert {path: len(names) for path, names in imports.items() if len(names) > MOST_IMPORTED_MODULES} == {}
