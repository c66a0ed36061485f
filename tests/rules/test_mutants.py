"""Tables of mutants fit the code: most are tried at night alone, so one that fits nothing would be noticed late."""

from __future__ import annotations

import importlib.util

import pytest
from mutants import CONTENT
from source_tree import ROOT, tracked_files

TABLES = [
    path
    for path in tracked_files()
    if path.suffix == ".py"
    and path.parts[0] == "tests"
    and "\nfrom mutants import Mutant, mutant_tests" in (ROOT / path).read_text(errors="ignore")
]


@pytest.mark.parametrize("table", TABLES, ids=str)
def test_every_mutant_changes_one_place(table):
    spec = importlib.util.spec_from_file_location(f"table_{table.stem}", ROOT / table)
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    for mutant in module.MUTANTS:
        base = ROOT if mutant.file.split("/")[0] in CONTENT else ROOT / "agentgym"
        assert (base / mutant.file).read_text().count(mutant.right) == 1, f"{mutant.file}: {mutant.right!r}"
