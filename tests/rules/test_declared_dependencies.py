"""Every third-party import is declared: in the core dependencies, or in an extra the importing module belongs to."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from heavy import CORE, DEV, EXTRAS, HEAVY_MODULES, OPTIONAL, distributions_in, normal
from source_tree import ROOT, imports_of, module_name, project, source_files, tracked_files


def third_party(path) -> list:
    return [
        one
        for one in imports_of(path)
        if not one.relative and one.module.split(".")[0] not in {"agentgym", "__future__", *sys.stdlib_module_names}
    ]


@pytest.mark.parametrize("path", source_files(), ids=str)
def test_every_third_party_import_is_declared(path):
    for one in third_party(path):
        top = one.module.split(".")[0]
        assert top in CORE | OPTIONAL, f"{path}:{one.line} imports {top}, which pyproject.toml does not declare"
        if top in OPTIONAL and not one.in_function:
            extra = HEAVY_MODULES.get(module_name(path))
            assert extra is not None, (
                f"{path}:{one.line} imports {top} at its top: name the module in heavy.py with its extra, or import it "
                "in the function that needs it"
            )
            assert top in EXTRAS[extra], f"{path}:{one.line} imports {top}, which is not in its extra {extra!r}"


# what `make setup` installs alone, since what it asks for is not wanted
WITHOUT_DEPENDENCIES = set(re.findall(r"--no-deps (.+)", (ROOT / "Makefile").read_text())[0].split())
# each driver of a benchmark's peer runs in a virtual environment of that peer
PEERS = ROOT / "benchmarks" / "peers"
AROUND = [
    path
    for path in tracked_files()
    if path.suffix == ".py" and path not in source_files() and (ROOT / path).parent != PEERS
]


@pytest.mark.parametrize("path", AROUND, ids=str)
def test_every_third_party_import_of_tests_and_benchmarks_is_declared(path):
    beside = (path.parent, Path("tests"), Path("tests/support"))
    files = {one.stem for one in tracked_files() if one.parent in beside}
    packages = {one.parent.name for one in tracked_files() if one.name == "__init__.py" and one.parent.parent in beside}
    known = CORE | OPTIONAL | DEV | WITHOUT_DEPENDENCIES | files | packages
    for one in third_party(path):
        top = one.module.split(".")[0]
        assert top in known, f"{path}:{one.line} imports {top}, which no extra declares"


def test_every_core_dependency_is_imported_somewhere():
    used = {one.module.split(".")[0] for path in source_files() for one in third_party(path)}
    assert used >= CORE & {normal(name).replace("-", "_") for name in distributions_in(dependencies())}


def test_every_declared_dependency_has_an_exact_version_in_the_constraints():
    """`make setup` must give everybody the versions that were tested."""
    lines = [line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    pinned = {normal(line.partition("==")[0]) for line in lines if "==" in line}
    declared = set().union(distributions_in(dependencies()), *map(distributions_in, extras().values()))
    assert declared - {"agentgym-core"} <= pinned
    assert [line for line in lines if line and "==" not in line] == []
    assert not [line for line in lines if "+" in line or "/" in line], "no local builds, paths or addresses"


def dependencies() -> list[str]:
    return project()["project"]["dependencies"]


def extras() -> dict[str, list[str]]:
    return project()["project"]["optional-dependencies"]
