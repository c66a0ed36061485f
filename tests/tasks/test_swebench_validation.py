"""`agentgym tasks import swebench --validate`: environments are built, gold and nothing tried, reasons written."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from typer.testing import CliRunner
from wheel_files import write_installed, write_wheel

from agentgym import load_task_set
from agentgym.cli.app import app
from agentgym.sandboxes.swe import wheels
from agentgym.tasks.importers import swebench_stand_ins

pytestmark = pytest.mark.needs_namespaces

SETUP = """from setuptools import setup

setup(name="shape", version="1.5", packages=["shape"], package_dir={"": "src"}, install_requires=["sides"])
"""
CODE = """from importlib.metadata import version

import sides

VERSION = version("shape")


def area(a):
    return a + sides.TWO
"""
TEST = 'from shape import VERSION, area\n\n\ndef test_version():\n    assert VERSION == "1.5"\n'
NEW = "\n\ndef test_area():\n    assert area(5) == 10\n"


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=x", "-c", "user.email=x@y", "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def instances(tmp_path_factory) -> tuple[Path, Path]:
    """A file of instances of one repository, which needs a package and its own metadata; and where its clone is."""
    folder = tmp_path_factory.mktemp("swebench")
    clone = folder / "clones" / "acme__shape"
    (clone / "src" / "shape").mkdir(parents=True)
    (clone / "tests").mkdir()
    git(clone, "init", "-q")
    (clone / "setup.py").write_text(SETUP)
    (clone / "src" / "shape" / "__init__.py").write_text(CODE)
    (clone / "tests" / "test_shape.py").write_text(TEST)
    git(clone, "add", ".")
    git(clone, "commit", "-q", "-m", "base")
    base = git(clone, "rev-parse", "HEAD").strip()
    (clone / "src" / "shape" / "__init__.py").write_text(CODE.replace("a + sides", "a * sides"))
    (clone / "tests" / "test_shape.py").write_text(TEST + NEW)
    fix, tests = git(clone, "diff", "--", "src"), git(clone, "diff", "--", "tests")
    good = {
        "instance_id": "good",
        "repo": "acme/shape",
        "base_commit": base,
        "problem_statement": "area(5) is 7",
        "patch": fix,
        "test_patch": tests,
        "FAIL_TO_PASS": ["/testbed/tests/test_shape.py::test_area"],
        "PASS_TO_PASS": ["test_version"],
    }
    git(clone, "commit", "-q", "-a", "-m", "the fix")
    fixed = git(clone, "rev-parse", "HEAD").strip()
    bug = git(clone, "diff", "HEAD", base, "--", "src")
    git(clone, "archive", "--prefix=shape-1.5/", "-o", str(folder / "shape==1.5.tar.gz"), "HEAD")
    rows = [
        good,
        {**good, "instance_id": "released", "repo": "acme/of-the-index"},
        {
            "instance_id": "smith",
            "repo": f"swesmith/acme__shape.{fixed[:8]}",
            "patch": bug,
            "problem_statement": "area(5) is 7",
            "FAIL_TO_PASS": ["tests/test_shape.py::test_area"],
            "PASS_TO_PASS": [],
        },
        {**good, "instance_id": "passes already", "FAIL_TO_PASS": ["tests/test_shape.py::test_version"]},
        {**good, "instance_id": "no fix", "patch": fix.replace("a * sides", "a - sides")},
        {**good, "instance_id": "no clone", "repo": "acme/round"},
        {**good, "instance_id": "old", "install_config": {"python": "3.99"}},
        {**good, "instance_id": "not a package", "install_config": {"pip_packages": ["six-and-seven==9"]}},
        {**good, "instance_id": "junit", "FAIL_TO_PASS": ["ShapeTest.area"]},
    ]
    path = folder / "instances.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path, folder / "clones"


def words_for(path: Path, clones: Path, out: Path) -> list[str]:
    return ["tasks", "import", "swebench", str(path), "--repositories", str(clones), "--validate", "--out", str(out)]


def run(path: Path, clones: Path, out: Path) -> str:
    finished = CliRunner().invoke(
        app, words_for(path, clones, out), env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    )
    assert finished.exit_code == 0, finished.output
    return finished.output


def test_what_validates_is_written_and_a_reason_for_everything_else(instances, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("AGENTGYM_CACHE", str(cache))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    wheels.environment.cache_clear()
    write_wheels(wheels.cache())
    for stand_ins in (swebench_stand_ins.STANDS_IN, swebench_stand_ins.FIXED):  # a release that has the fix
        monkeypatch.setitem(stand_ins, "released", "shape==1.5")
    (cache / "sources").mkdir()
    shutil.copy(instances[0].parent / "shape==1.5.tar.gz", cache / "sources")
    out = tmp_path / "tasks.jsonl"
    output = run(*instances, out)
    assert "3 of 9 validated" in output
    tasks = load_task_set(str(out))["held_out"]
    assert [task.id for task in tasks] == ["good", "released", "smith"]
    good = tasks[0].parameters
    assert good["source"] == ["src", "."]
    assert "sides==2.0" in good["requirements"]
    assert any(pinned.startswith("shape==1.5+src") for pinned in good["requirements"])
    reasons = {
        row["id"]: row["reason"]
        for row in map(json.loads, out.with_name("tasks.jsonl.verdicts.jsonl").read_text().splitlines())
    }
    says = {
        "passes already": "1 of 1 tests to be mended pass as it is",
        "no fix": "1 of 2 tests do not pass with the gold patch: tests/test_shape.py::test_area (failed) assert 3",
        "no clone": "no clone of acme/round",
        "old": "An image with Python 3.99 needs an interpreter of this version",
        "not a package": "pip cannot provide",
        "junit": "it has no tests for pytest",
    }
    assert {name: text in reasons.get(name, "") for name, text in says.items()} == dict.fromkeys(says, True), reasons


@pytest.mark.thorough  # tests/sandboxes/test_swe_bugs.py kills what keeps the same journal
def test_an_import_that_was_killed_loses_nothing_that_it_found_out(instances, tmp_path, monkeypatch):
    """Killed with all its processes, once while an environment is built and once while tasks are tried."""
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    wheels.environment.cache_clear()
    write_wheels(wheels.cache())
    rows, out, locks = tmp_path / "instances.jsonl", tmp_path / "tasks.jsonl", wheels.cache() / "locks"
    lines = instances[0].read_text().splitlines(keepends=True)
    rows.write_text("".join(line for line in lines if json.loads(line)["instance_id"] in ("good", "no fix")))
    journal = out.with_name("tasks.jsonl.validated.jsonl")
    kill_when(lambda: any(locks.glob("*/*")), rows, instances[1], out)
    kill_when(lambda: journal.exists() and journal.read_text().endswith("\n"), rows, instances[1], out)
    assert not out.exists() or load_task_set(str(out)), "what was written is whole"
    resolved = {path: path.stat().st_mtime_ns for path in locks.glob("*.json")}
    assert resolved
    before = journal.read_text()
    assert "1 of 2 validated" in run(rows, instances[1], out)
    assert [task.id for task in load_task_set(str(out))["held_out"]] == ["good"]
    assert resolved == {path: path.stat().st_mtime_ns for path in locks.glob("*.json")}, "one was resolved twice"
    assert journal.read_text().startswith(before)
    keys = [json.loads(line)[0] for line in journal.read_text().splitlines() if line]
    assert len(keys) == len(set(keys)) == 2, "one was tried twice"


def kill_when(condition: Callable[[], bool], path: Path, clones: Path, out: Path) -> None:
    """Run the command until something has happened, and kill it with all that it started."""
    process = subprocess.Popen(
        [sys.executable, "-m", "agentgym", *words_for(path, clones, out), "--at-once", "1"],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        while not condition():
            assert process.poll() is None, process.stderr.read().decode()
            time.sleep(0.01)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def write_wheels(folder: Path) -> None:
    """What an index would give: pytest, setuptools to build with, and a package of which nobody has heard."""
    for name in ("pytest", "pluggy", "iniconfig", "packaging", "pygments", "setuptools"):
        write_installed(folder, name)
    write_wheel(folder, "sides", "2.0", {"sides.py": "TWO = 2\n"})
