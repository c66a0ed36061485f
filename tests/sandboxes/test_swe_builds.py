"""Source distributions of other years: they are fetched without being run, built with what they take for granted, and
named where they cannot be built."""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

import pytest
from wheel_files import write_installed, write_wheel

from agentgym.sandboxes.swe.pip import run_pip
from agentgym.sandboxes.swe.projects import lock_project
from agentgym.sandboxes.swe.repository import Repository
from agentgym.sandboxes.swe.sources import fetch

SETUP = "import sides\nfrom setuptools import setup\n\nsetup(name='shape', version='1.5', packages=['shape'])\n"
METADATA = "Metadata-Version: 2.1\nName: shape\nVersion: 1.5\n"


@pytest.fixture
def index(tmp_path, monkeypatch) -> Path:
    """A folder in place of a package index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def write_source(folder: Path, files: dict[str, str]) -> None:
    with tarfile.open(folder / "shape-1.5.tar.gz", "w:gz") as archive:
        for path, text in files.items():
            member = tarfile.TarInfo(f"shape-1.5/{path}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))


def test_a_source_distribution_is_fetched_though_its_build_runs_no_more(index):
    write_source(index, {"PKG-INFO": METADATA, "setup.py": "from setuptools import Feature\n"})
    with tarfile.open(fetch("shape==1.5")) as archive:
        assert archive.getnames() == ["shape-1.5/PKG-INFO", "shape-1.5/setup.py"]


@pytest.mark.thorough
def test_a_project_that_does_not_say_what_its_build_needs_is_built_beside_its_requirements(index):
    for name in ("pytest", "pluggy", "iniconfig", "packaging", "pygments", "setuptools"):
        write_installed(index, name)
    write_wheel(index, "sides", "2.0", {"sides.py": "TWO = 2\n"})
    repository = Repository({"setup.py": SETUP.encode(), "shape/__init__.py": b""})
    pins = lock_project(repository, ["sides==2.0"])
    assert any(pin.startswith("shape==1.5+src") for pin in pins)
    assert "sides==2.0" in pins
    assert repository.files.keys() == {"setup.py", "shape/__init__.py"}


def test_a_package_that_cannot_be_built_is_named(tmp_path):
    """By a pip that does not say it itself: it unpacks what it builds into such a folder."""
    folder = tmp_path / "pip-wheel-b_33fvti" / f"shape_{'0c' * 16}"
    folder.mkdir(parents=True)
    (folder / "setup.py").write_text("raise ImportError('no Feature')\n")
    assert run_pip([sys.executable, str(folder / "setup.py")]) == "in the build of shape: ImportError: no Feature"
