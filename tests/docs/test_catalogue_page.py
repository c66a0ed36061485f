"""The catalogue lists exactly what is installed, and its figures are of the tasks that are pinned."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from agentgym.errors import AgentGymError
from research.reference.catalogue_page import catalogue_page, look_at_all, read_figures

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "catalogue.md"
FIGURES = ROOT / "docs" / "catalogue.json"
REMEDY = "run `agentgym dev catalogue --play 20`"
WRITE = """
import sys
from pathlib import Path
from research.reference.catalogue_page import catalogue_page, read_figures
sys.stdout.write(catalogue_page(read_figures(Path(sys.argv[1]))))
"""


def test_the_page_lists_exactly_what_is_installed():
    rows = [line.split("|")[1].strip() for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:3] == "| `"]
    kinds = {f"agentgym.{kind}" for kind in ("environments", "task_sets", "importers")}
    points = [point.name for point in distribution("agentgym-core").entry_points if point.group in kinds]
    assert sorted(rows) == sorted(f"`{name}`" for name in points), REMEDY


def test_the_page_is_what_the_command_writes_of_its_figures():
    """In a process of its own, in which no test has registered anything."""
    done = subprocess.run([sys.executable, "-c", WRITE, FIGURES], capture_output=True, text=True, check=True)
    assert done.stdout == PAGE.read_text(encoding="utf-8"), REMEDY


def test_the_figures_are_of_the_pinned_tasks():
    pins = json.loads((ROOT / "tests" / "contracts" / "pins.json").read_text(encoding="utf-8"))["task_sets"]
    assert {name: figures["fingerprint"] for name, figures in read_figures(FIGURES).items()} == pins, REMEDY


async def test_a_set_is_played_once_until_its_tasks_change(tmp_path, monkeypatch):
    monkeypatch.setattr("agentgym.registry.names", lambda kind: {"task_sets": ["text/locks-v1"]}.get(kind, []))
    lines, path, figures = [], tmp_path / "catalogue.json", {"gone/set-v1": {}}
    await look_at_all(figures, path, 0, lines.append)
    assert "| `text/locks-v1` | 6,000 | 240 | 600 | no |" in catalogue_page(figures)
    await look_at_all(figures, path, 3, lines.append)
    await look_at_all(figures, path, 3, lines.append)
    assert lines == ["text/locks-v1: {'oracle': 1.0, 'imperfect_oracle': 0.0, 'silence': 0.0}"]
    assert figures == read_figures(path)
    figures["text/locks-v1"]["fingerprint"] = "of other tasks"
    await look_at_all(figures, path, 0, lines.append)
    assert "success" not in figures["text/locks-v1"]


async def test_what_cannot_run_here_is_named_with_its_reason(tmp_path, monkeypatch):
    monkeypatch.setattr("agentgym.registry.names", lambda kind: {"task_sets": ["text/locks-v1"]}.get(kind, []))
    monkeypatch.setattr("agentgym.sandboxes.text.Locks.unavailable_reason", classmethod(lambda cls: "no wheels here"))
    figures = {}
    await look_at_all(figures, tmp_path / "catalogue.json", 3, print)
    assert "- `text/locks-v1` was not played: no wheels here" in catalogue_page(figures)


def test_a_broken_file_and_a_set_without_figures_are_named(tmp_path):
    (tmp_path / "catalogue.json").write_text("{", encoding="utf-8")
    with pytest.raises(AgentGymError, match=r"catalogue\.json is no JSON"):
        read_figures(tmp_path / "catalogue.json")
    with pytest.raises(AgentGymError, match=r"knows nothing of .*apps/short-v1.*run `agentgym dev catalogue`"):
        catalogue_page({})
