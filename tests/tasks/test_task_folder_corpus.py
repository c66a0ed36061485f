"""A corpus of task folders: written by the example, imported with splits, and demonstrated by its own solutions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym import load_task_set
from agentgym.cli.app import app
from agentgym.training import Recipe

ROOT = Path(__file__).resolve().parents[2]
PLAIN = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus") / "folders"
    subprocess.run([sys.executable, ROOT / "examples/task_folders.py", folder, "--count", "12"], check=True)
    return folder


def imported(corpus, target, split):
    words = ["tasks", "import", "harbor", str(corpus), "--option", "image=host", "--split", split, "--out", str(target)]
    return CliRunner().invoke(app, words, env=PLAIN)


def test_splits_of_given_sizes_are_the_same_at_every_import(corpus, tmp_path):
    sets = []
    for name in ("a.jsonl", "b.jsonl"):
        finished = imported(corpus, tmp_path / name, "validation:2,held_out:3")
        assert finished.exit_code == 0, finished.output
        sets.append(load_task_set(str(tmp_path / name)))
    sizes = {split: len(sets[0][split]) for split in sets[0]}
    assert sizes == {"train": 7, "validation": 2, "held_out": 3}
    assert [[task.id for task in sets[0][split]] for split in sizes] == [
        [task.id for task in sets[1][split]] for split in sizes
    ]


@pytest.mark.parametrize(
    ("split", "says"),
    [
        ("validation:2,held_out:10", "takes 12 of 12 tasks"),
        ("train:3", "--split train:3 is not valid"),
        ("held_out:few", "is not valid"),
        ("test:3", "--split test is unknown"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(corpus, tmp_path, split, says):
    finished = imported(corpus, tmp_path / "c.jsonl", split)
    assert finished.exit_code == 2
    assert says in finished.output
    assert not (tmp_path / "c.jsonl").exists()


def test_the_solutions_of_a_set_in_a_file_are_demonstrations(corpus, tmp_path):
    """A short script is demonstrated as the command that it is, so that a policy can imitate it."""
    assert imported(corpus, tmp_path / "d.jsonl", "held_out:3").exit_code == 0
    tasks = load_task_set(str(tmp_path / "d.jsonl"))
    task = tasks["train"][0]
    script = (Path(task.parameters["folder"]) / "solution/solve.sh").read_text().strip()
    assert tasks.oracle is not None
    calls = [call for message in tasks.oracle(task) for call in message.calls]
    assert [(call.name, call.arguments) for call in calls] == [("bash", {"command": script}), ("done", {})]
    Recipe.load(ROOT / "recipes/data/task_folders.toml", [f'tasks.set="{tmp_path / "d.jsonl"}"'])
