"""The command that an error names to install an optional part works where it is read."""

from __future__ import annotations

from pathlib import Path

from source_tree import source_files

import agentgym
from agentgym import _imports

ROOT = Path(__file__).resolve().parents[1]


def test_in_a_clone_the_command_installs_the_clone():
    assert agentgym.install_command("view") == f"pip install -e '{ROOT}[view]'"


def test_installed_from_an_index_the_command_names_the_package(monkeypatch, tmp_path):
    monkeypatch.setattr(_imports, "__file__", str(tmp_path / "site-packages" / "agentgym" / "_imports.py"))
    assert _imports.install_command("view") == "pip install 'agentgym-core[view]'"


def test_no_error_names_the_package_itself():
    """An error that spells the command out is wrong in a clone."""
    files = [ROOT / path for path in source_files()]
    assert [path.name for path in files if "agentgym-core[" in path.read_text(encoding="utf-8")] == []


def test_public_names_are_listed_before_they_are_imported():
    assert set(agentgym.__all__) <= set(dir(agentgym))
