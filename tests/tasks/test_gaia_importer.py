"""GAIA: questions of our own in the published form become task folders, judged by the published rules."""

from __future__ import annotations

import json

import pytest

from agentgym.errors import TaskError
from agentgym.registry import load
from agentgym.sandbox import rootfs
from agentgym.tasks.importers.agentbench_os import write_folders
from agentgym.tasks.importers.gaia import JUDGE
from agentgym.tasks.importers.items import LeftOutWarning

ROWS = [
    {"task_id": "a", "Question": "What is the sum?", "Level": 1, "Final answer": "42", "file_name": "a.bin"},
    {"task_id": "b", "Question": "Which planets?", "Level": 2, "Final answer": "Earth, Mars", "file_name": ""},
    {"task_id": "c", "Question": "Hidden?", "Level": 3, "Final answer": "?", "file_name": ""},
    {"task_id": "d", "Question": "Gone?", "Level": 3, "Final answer": "1", "file_name": "../a.bin"},
]


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A folder as published, in a cache with an image for Python."""
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "images" / "python-3.12-slim" / "bin").mkdir(parents=True)
    assert "python-3.12-slim" in rootfs.names()
    top = tmp_path / "validation"
    top.mkdir()
    (top / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (top / "a.bin").write_bytes(b"\x00\xff")
    return top


def test_questions_become_task_folders_and_what_does_not_is_named(published, tmp_path):
    folders = tmp_path / "folders"
    with pytest.warns(LeftOutWarning) as warned:
        task_set = load("importers", "gaia")(published, folders=folders, packages="pillow")
    assert [task.id for task in task_set["held_out"]] == ["a", "b"]
    reasons = next(warning.message.reasons for warning in warned if isinstance(warning.message, LeftOutWarning))
    assert reasons == {"c": "its answer is not published", "d": "its file is not beside the questions"}
    assert (folders / "a/environment/a.bin").read_bytes() == b"\x00\xff"
    assert "RUN pip install pillow" in (folders / "a/environment/Dockerfile").read_text()
    assert "42" not in (folders / "a/instruction.md").read_text()
    assert [task.tags for task in task_set["held_out"]] == [("level-1", "file"), ("level-2",)]


def test_bad_input_is_named(published, tmp_path):
    importer = load("importers", "gaia")
    with pytest.raises(TaskError, match=r"has no metadata.jsonl"):
        importer(tmp_path, folders=tmp_path / "folders")
    with pytest.raises(TaskError, match="is not a new folder"):
        importer(published)
    (published / "metadata.jsonl").write_text(json.dumps(ROWS[2]))
    with pytest.raises(TaskError, match=r"none of 1 items can be imported: c: its answer is not published"):
        importer(published, folders=tmp_path / "folders")


@pytest.mark.parametrize(
    ("given", "expected", "paid"),
    [
        ("$1,184.5", "1184.5", True),
        ("42", "43", False),
        ("forty", "40", False),
        ("the  Lamp!", "The lamp", True),
        ("earth;Mars", "Earth, Mars", True),
        ("Earth", "Earth, Mars", False),
        ("3, b.", "3, b", False),
        ("3.0, B", "3, b", True),
    ],
)
def test_answers_are_compared_by_the_published_rules(given, expected, paid):
    scope = {}
    exec(JUDGE.partition("\n\ntry:\n    with")[0], scope)
    assert scope["right"](given, expected) is paid


def test_no_item_is_written_outside_the_new_folder(tmp_path):
    with pytest.raises(TaskError, match="leads out of the folder"):
        write_folders(tmp_path / "new", {"a/task.toml": "x", "../outside/task.toml": "x"})
    assert not list(tmp_path.iterdir())
