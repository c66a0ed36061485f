"""docs/architecture.md names functions that exist, in the files that it links."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from source_tree import ROOT, syntax_tree

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SECTIONS = dict(section.split("\n", 1) for section in PAGE.split("\n## ")[1:])


def names_in(path: Path) -> set[str]:
    """Functions, classes and their attributes that a file defines, and names that it imports."""
    names = set()
    for node in ast.walk(syntax_tree(path)):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.alias(name=name):
                names.add(name)
    return names


@pytest.mark.parametrize("title", SECTIONS)
def test_a_linked_file_defines_each_name_of_a_path(title):
    links = re.findall(r"\]\(\.\./(agentgym/[\w/]+\.py)\)", SECTIONS[title])
    known = set().union(*(names_in(Path(link)) for link in links))
    mentioned = re.findall(r"`([\w.]+)`", SECTIONS[title])
    assert len(mentioned) >= 5
    assert [name for name in mentioned if not set(name.split(".")) <= known] == []


def test_there_are_five_paths():
    assert len(SECTIONS) == 5
