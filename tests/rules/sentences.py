"""Habits of sentences that make riddles, in the docstrings of the source; CONTRIBUTING.md says what to write instead.

Left out is what is shown to others as it stands: descriptions of tools, of commands, of what entry points register, and
of attacks on sandboxes.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from source_tree import CONTENT, ROOT, source_files, syntax_tree, walk

Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
DEFINITIONS = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
SHOWN = {"tool", "command", "callback"}
IS_NO = re.compile(r"(?<![Tt]here )\b(?:is|are|was|were|be) no (?!longer\b|more\b)[a-z]+")
AS_CLASS = re.compile(r"As (?:[A-Z`]|the \w+[.,])|Likewise")
ARGUMENT = re.compile(r"^\s+\w[\w, `]*: of (?:the|its|it|a|an)?\b", re.MULTILINE)
PEOPLE = re.compile(r"\b(?:[Ww]hoever|[Nn]obody|[Ss]omebody|[Aa]nybody)\b")


def not_imperative() -> Iterator[tuple[Path, str]]:
    """Docstrings of functions that do not begin with a verb in the imperative (ruff D401)."""
    lines = lines_without_imperative()
    for path, node, _ in docstrings():
        first = node.body[0]
        if any((path, line) in lines for line in range(first.lineno, (first.end_lineno or first.lineno) + 1)):
            yield path, f"{path}:{first.lineno}"


def is_no() -> Iterator[tuple[Path, str]]:
    """Docstrings with "is no X" in place of "is not a X"."""
    return matching(IS_NO)


def as_class() -> Iterator[tuple[Path, str]]:
    """Docstrings that begin "As X" in place of saying what happens."""
    return ((path, f"{path}:{node.body[0].lineno}") for path, node, text in docstrings() if AS_CLASS.match(text))


def argument_without_noun() -> Iterator[tuple[Path, str]]:
    """Docstrings with a list of arguments such as `name: of the tool`."""
    return matching(ARGUMENT)


def people_for_programs() -> Iterator[tuple[Path, str]]:
    """Docstrings with whoever, nobody, somebody or anybody, which seldom mean a person."""
    return matching(PEOPLE)


def matching(pattern: re.Pattern[str]) -> Iterator[tuple[Path, str]]:
    """Yield the docstrings that a pattern finds."""
    return ((path, f"{path}:{node.body[0].lineno}") for path, node, text in docstrings() if pattern.search(text))


@cache
def docstrings() -> list[tuple[Path, Definition, str]]:
    """Return each docstring of the source with its file and what it describes."""
    found = []
    for path in source_files():
        for node in walk(syntax_tree(path)):
            if isinstance(node, DEFINITIONS) and (text := ast.get_docstring(node)) and not is_shown(path, node):
                found.append((path, node, text))
    return found


def is_shown(path: Path, node: Definition) -> bool:
    """Whether others read the docstring as it stands."""
    if isinstance(node, ast.Module):
        return False
    marks = {ast.unparse(mark).split("(")[0].rpartition(".")[2] for mark in node.decorator_list}
    is_attack = path.parts[:2] == ("testing", "backends") and "target" in (
        [argument.arg for argument in node.args.args] if not isinstance(node, ast.ClassDef) else []
    )
    return bool(marks & SHOWN) or is_attack or (path.parts[:2], node.name) in registered()


@cache
def registered() -> frozenset[tuple[tuple[str, ...], str]]:
    """Return what entry points register: the first two folders of its module, and its name."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]
    values = [value for group in groups.values() for value in group.values()]
    names = set()
    for module, _, name in (value.partition(":") for value in values):
        parts = module.split(".")
        parts = parts[1:] if parts[1:2] and parts[1] in CONTENT else parts
        names |= {(tuple(parts[:2]), name), ((parts[0], f"{parts[1]}.py") if len(parts) > 1 else (parts[0],), name)}
    return frozenset(names)


@cache
def lines_without_imperative() -> frozenset[tuple[Path, int]]:
    """Return file and line of each docstring that ruff finds without an imperative."""
    rule = ["--select", "D401", "--config", 'lint.pydocstyle.convention="google"', "--output-format", "json"]
    command = [sys.executable, "-m", "ruff", "check", "--isolated", *rule, *map(str, source_files())]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout
    places = ((Path(each["filename"]), each["location"]["row"]) for each in json.loads(output))
    return frozenset((path.relative_to(ROOT) if path.is_absolute() else path, row) for path, row in places)
