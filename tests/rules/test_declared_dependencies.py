"""Every third-party import is declared: in the core dependencies, or in an extra the importing module belongs to."""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from heavy import CORE, DEV, EXTRAS, HEAVY_MODULES, OPTIONAL, distributions_in, normal
from source_tree import ROOT, Import, imports_of, module_name, project, source_files, tracked_files

OWN = {"agentgym", "__future__", *sys.stdlib_module_names}
OF_DEBIAN = {"sandboxes/desktop/guest/tree.py": {"gi"}}  # run in a sandbox by the system's Python; pip cannot bring it


def third_party(path: Path) -> list[Import]:
    return [
        statement
        for statement in imports_of(path)
        if not statement.relative and statement.module.split(".")[0] not in OWN
    ]


def test_every_third_party_import_is_declared():
    assert [
        f"{path}:{statement.line} imports {statement.module}: {objection}"
        for path in source_files()
        for statement in third_party(path)
        if (objection := objection_to(path, statement))
    ] == []


def objection_to(path: Path, statement: Import) -> str:
    """Why a source file may not import a third-party module; nothing if it may."""
    top = statement.module.split(".")[0]
    if top in OF_DEBIAN.get(path.as_posix(), ()):
        return ""
    if top not in CORE | OPTIONAL:
        return "pyproject.toml does not declare it"
    if top not in OPTIONAL or statement.in_function:
        return ""
    extra = HEAVY_MODULES.get(module_name(path))
    if extra is None:
        return "name the module in heavy.py with its extra, or import it in the function that needs it"
    return "" if top in EXTRAS[extra] else f"it is not in the module's extra {extra!r}"


def test_an_undeclared_or_early_import_is_seen():
    path = Path("agentgym/credit/invented.py")
    assert "not declare" in objection_to(path, Import("pandas_of_nobody", 1, False, False))
    assert "heavy.py" in objection_to(path, Import("torch.nn", 1, False, False))
    assert objection_to(path, Import("torch.nn", 1, True, False)) == ""
    assert "extra 'view'" in objection_to(Path("agentgym/viewer/application.py"), Import("torch", 1, False, False))


# each driver of a benchmark's peer, and each agent program, runs in a virtual environment of its own
PEERS = (ROOT / "benchmarks" / "peers", ROOT / "examples" / "programs")


def test_every_third_party_import_of_tests_and_benchmarks_is_declared():
    declared = CORE | OPTIONAL | DEV | {"research"}  # of the checkout; the packages of the wheel may not import it
    sources = set(source_files())
    around = [
        path
        for path in tracked_files()
        if path.suffix == ".py" and path not in sources and not {*PEERS} & {*(ROOT / path).parents}
    ]
    assert [
        f"{path}:{statement.line} imports {statement.module}, which no extra declares"
        for path in around
        for statement in third_party(path)
        if statement.module.split(".")[0] not in declared | modules_beside(path.parent)
    ] == []


@cache
def modules_beside(folder: Path) -> set[str]:
    """What a script in a folder can import from its own folder, from tests/, tests/support/ and benchmarks/."""
    folders = (folder, Path("tests"), Path("tests/support"), Path("benchmarks"))
    modules = {path.stem for path in tracked_files() if path.parent in folders}
    packages = {
        path.parent.name for path in tracked_files() if path.name == "__init__.py" and path.parent.parent in folders
    }
    return modules | packages


def test_every_core_dependency_is_imported_somewhere():
    distributions = packages_distributions()
    modules = {statement.module.split(".")[0] for path in source_files() for statement in third_party(path)}
    used = {normal(name) for module in modules for name in distributions.get(module, ())}
    assert used >= {normal(name) for name in distributions_in(dependencies())}


def test_every_declared_dependency_has_an_exact_version_in_the_constraints():
    """`make setup` must give everybody the versions that were tested."""
    lines = [line.partition("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    pinned = {normal(line.partition("==")[0]) for line in lines if "==" in line}
    elsewhere = {"vllm", "wandb", "trackio", "mlflow", "opentelemetry", "inspect", "verifiers"}  # in other environments
    installed = {name: group for name, group in extras().items() if name not in elsewhere}
    declared = set().union(distributions_in(dependencies()), *map(distributions_in, installed.values()))
    assert declared - {"agentgym-core"} <= pinned
    assert [line for line in lines if line and "==" not in line] == []
    assert not [line for line in lines if "+" in line or "/" in line], "no local builds, paths or addresses"


def dependencies() -> list[str]:
    return project()["project"]["dependencies"]


def extras() -> dict[str, list[str]]:
    return project()["project"]["optional-dependencies"]
