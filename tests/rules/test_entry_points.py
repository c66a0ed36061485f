"""Every entry point of pyproject.toml is installed and names something in a package of ours; nothing is imported.

tests/test_entry_points_load.py loads them and checks that each is of the kind its group promises.
"""

from __future__ import annotations

import ast
from importlib.metadata import EntryPoint, distribution

from source_tree import module_name, project, source_files, syntax_tree, walk

from agentgym import registry

GROUPS: dict[str, dict[str, str]] = project()["project"]["entry-points"]
OF_THE_CHECKOUT: dict[str, dict[str, str]] = project()["tool"]["agentgym"]["checkout"]["entry-points"]


def test_every_group_is_one_the_registry_reads():
    others = {"inspect_ai"}  # what Inspect reads
    assert {*GROUPS, *OF_THE_CHECKOUT} - others <= {f"agentgym.{kind}" for kind in registry.KINDS}


def test_what_is_installed_is_what_pyproject_says():
    installed = {(point.group, point.name, point.value) for point in distribution("agentgym-core").entry_points}
    groups = [*GROUPS.items(), *OF_THE_CHECKOUT.items()]
    written = {(group, name, value) for group, points in groups for name, value in points.items()}
    written |= {("console_scripts", name, value) for name, value in project()["project"]["scripts"].items()}
    assert installed == written, "pyproject.toml changed since it was installed: pip install -e . --no-deps"


def test_every_entry_point_names_something_in_a_package_of_ours():
    paths = {module_name(path): path for path in source_files()}
    assert [
        f"{group}: {name} = {value}"
        for group, points in GROUPS.items()
        for name, value in points.items()
        for module, attribute in [value.split(":")]
        if module not in paths or attribute not in top_level_names(syntax_tree(paths[module]))
    ] == []


def top_level_names(tree: ast.Module) -> set[str]:
    """What a module defines, assigns or imports, also where its top level branches."""
    names: set[str] = set()
    for node in walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case ast.alias():
                names.add(node.asname or node.name)
            case ast.Constant(value=str()):  # names that a package's __init__ loads when first used
                names.add(node.value)
    return names


def test_names_that_results_are_compared_by_carry_a_version():
    names = [*GROUPS["agentgym.environments"], *GROUPS["agentgym.task_sets"]]
    assert [name for name in names if not registry._VERSIONED.fullmatch(name)] == []


def test_the_command_line_is_callable():
    (value,) = project()["project"]["scripts"].values()
    assert callable(EntryPoint("agentgym", value, "console_scripts").load())
