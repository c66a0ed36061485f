"""benchmarks/importers.py counts, plays and tells: a gold that solves, and one that does not."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from agentgym import Call, Message, TaskSet

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
ROW = {
    "question": "Who made the lamp?",
    "answer": "Ida",
    "level": "hard",
    "type": "bridge",
    "supporting_facts": [["Lamp", 0]],
    "context": [["Lamp", ["Ida made it."]]],
}


@pytest.fixture
def importers(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    yield importlib.import_module("importers")
    sys.modules.pop("importers", None)


@pytest.fixture
def source(importers, tmp_path):
    """Three questions, all about one page."""
    rows = [ROW | {"_id": str(n), "question": f"Who made lamp {n}?"} for n in range(3)]
    (tmp_path / "hotpot.json").write_text(json.dumps(rows))
    return importers.Source("hotpot.json", "hotpot")


async def test_a_gold_that_solves_every_task_is_a_line_of_the_table(importers, source, tmp_path):
    line = await importers.reproduce(tmp_path, source)
    assert (line.items, line.tasks, line.solved, line.failed) == (3, 3, 3, ())
    row = "| `hotpot.json` | `hotpot` | `agentgym/search-v1` | 3 | 3 | 3 of 3 | 0 |"
    assert importers.table([line]).splitlines()[2:] == [row]
    assert (await importers.reproduce(tmp_path, source, most=2)).n_played == 2


async def test_a_gold_that_does_not_solve_a_task_is_named(importers, source, tmp_path, monkeypatch):
    def wrong(tasks, task):
        answer = "Bo" if task.id.endswith("/1") else "Ida"
        return [Message("assistant", "", (Call("answer", {"text": answer, "sources": []}),))]

    monkeypatch.setattr(TaskSet, "solution", wrong)
    line = await importers.reproduce(tmp_path, source)
    assert (line.solved, [name.rpartition("/")[2] for name in line.failed]) == (2, ["1"])


def test_items_are_counted_as_the_file_has_them(importers, tmp_path):
    (tmp_path / "lines.jsonl").write_text("{}\n\n{}\n")
    squad = {"data": [{"paragraphs": [{"qas": [1, 2]}, {"qas": [3]}]}]}
    (tmp_path / "squad.json").write_text(json.dumps(squad))
    assert importers.count(tmp_path / "lines.jsonl") == 2
    assert importers.count(tmp_path / "squad.json") == 3
