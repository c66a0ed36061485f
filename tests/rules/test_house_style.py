"""Rules of the house a reader relies on: docstrings, names, lengths, and nothing of any one machine in the files."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from source_tree import ROOT, source_files, syntax_tree, tracked_files

SCRIPTS = [path for path in tracked_files() if path.suffix == ".py"]
MAX_LINES = 400
SHORT = 5  # lines of body up to which a function's name and signature may say everything


def test_every_public_module_class_and_function_has_a_docstring():
    missing = [str(path) for path in source_files() if not ast.get_docstring(syntax_tree(path))]
    for path in source_files():
        for node in syntax_tree(path).body:
            if needs_docstring(node, path) and not ast.get_docstring(node):
                missing.append(f"{path}:{node.lineno} {node.name}")
    assert missing == [], "without a docstring"


def needs_docstring(node: ast.stmt, path: Path) -> bool:
    if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    if node.name.startswith("_") or is_overload(node):
        return False
    if isinstance(node, ast.ClassDef):
        return True
    lines = (node.end_lineno or 0) - node.body[0].lineno + 1
    return path.parts[0] == "agentgym" and lines > SHORT


def is_overload(node) -> bool:
    return any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in node.decorator_list)


def test_no_file_is_a_drawer_for_odds_and_ends():
    drawers = {"utils", "util", "helpers", "helper", "common", "misc", "tools_common"}
    assert [path for path in tracked_files() if drawers & {path.stem, *path.parent.parts}] == []


def test_no_file_is_longer_than_four_hundred_lines():
    lines = {str(path): len((ROOT / path).read_text().splitlines()) for path in SCRIPTS}
    assert {path: length for path, length in lines.items() if length > MAX_LINES} == {}, "look for the second idea"


def test_no_two_test_files_share_a_name():
    """The tests folders are no packages, so two files of one name would be one module to Python."""
    names = [path.name for path in SCRIPTS if path.parts[0] == "tests" and path.name != "conftest.py"]
    assert sorted(names) == sorted(set(names))


# Written so that this file does not match itself.
MACHINE = re.compile(
    rb"/work/(?:main|shared|[.]library)|/root/(?:venv|[.]pyenv|plan|[.]bash)|/opt/(?:wheels)|/home/\w+/|/tmp/bash_jobs"
    rb"|pypi[.]org|pythonhosted[.]org|npmjs[.]org|deb[.]debian[.]org|download[.]pytorch[.]org|proxy[.]golang[.]org"
)


def test_no_file_names_a_machine_of_ours_or_the_host_of_a_package_index():
    matches = []
    for path in tracked_files():
        if path.name == "test_house_style.py":
            continue
        for number, line in enumerate((ROOT / path).read_bytes().splitlines(), 1):
            matches += [f"{path}:{number}: {match.group().decode()}" for match in MACHINE.finditer(line)]
    assert matches == []


def test_no_test_changes_the_clock_or_the_event_loop_for_everybody():
    """A server in another thread of the worker once slept until the machine's uptime had passed a second time."""
    patched = re.compile(r"setattr\((\w+\.)?(time|asyncio), ")
    found_in = [str(path) for path in SCRIPTS if path.parts[0] == "tests" and patched.search((ROOT / path).read_text())]
    assert found_in == [], "replace the module in the namespace that is tested: setattr(module, 'time', ...)"
