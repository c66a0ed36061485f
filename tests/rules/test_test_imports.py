"""Tests share helpers by tests/support and fixtures: no test imports another one, and none edits sys.path."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from source_tree import syntax_tree, tracked_files, walk

TESTS = [path for path in tracked_files() if path.parts[0] == "tests" and path.suffix == ".py"]
EDITS_PATH = {
    "tests/conftest.py": "the folder of the benchmarks, for every test",
    "tests/support/mutants.py": "in a process that imports a copy of the package",
    "tests/rules/calls.py": "it is also a script of its own",
    "tests/rules/ratchet.py": "it is also a script of its own",
    "tests/support/forked_commands.py": "in a fork that becomes a command",
    "tests/tasks/bfcl_verdicts.py": "a script for another interpreter",
}
"""The files that may change sys.path, and why."""


def imported_tests(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each import of a test module, also of one within a function."""
    for node in walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or "", *(alias.name for alias in node.names if not node.module)]
        for name in names:
            if any(part.startswith("test_") for part in name.split(".")):
                yield node.lineno, name


def path_edits(tree: ast.Module) -> Iterator[int]:
    """Yield the line of each change of sys.path: a call of its methods, or an assignment to it or a part of it."""
    for node in walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_path(node.func.value):
            yield node.lineno
        elif isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(is_path(target.value if isinstance(target, ast.Subscript) else target) for target in targets):
                yield node.lineno


def is_path(node: ast.expr) -> bool:
    return ast.unparse(node) == "sys.path"


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("from test_run import recipe", ["test_run"]),
        ("import test_run as run", ["test_run"]),
        ("def f():\n    from tests.training.test_run import recipe", ["tests.training.test_run"]),
        ("from . import test_run", ["test_run"]),
        ("from lookup_runs import recipe, test_of_nothing\nimport pytest", []),
    ],
)
def test_an_import_of_a_test_is_found(code, names):
    assert [name for _, name in imported_tests(ast.parse(code))] == names


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("sys.path.insert(0, 'x')", 1),
        ("sys.path.append('x')", 1),
        ("sys.path[:0] = ['x']", 1),
        ("sys.path += ['x']", 1),
        ("folders = [folder for folder in sys.path]", 0),
    ],
)
def test_a_change_of_the_path_is_found(code, count):
    assert len(list(path_edits(ast.parse(code)))) == count


def test_no_test_imports_another_test():
    found = [f"{path}:{line}: {name}" for path in TESTS for line, name in imported_tests(syntax_tree(path))]
    assert found == [], "move what both need to tests/support, or make it a fixture of a conftest.py"


def test_nothing_edits_the_path_but_what_must():
    lines = {str(path): list(path_edits(syntax_tree(path))) for path in TESTS}
    edits = {path: found for path, found in lines.items() if found}
    assert edits.keys() - EDITS_PATH.keys() == set(), "tests/support and the test's own folder are on the path already"
    assert EDITS_PATH.keys() - edits.keys() == set(), "these need no exception any more"
