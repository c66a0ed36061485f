"""Tasks as an argument or an option, old commands and options, and help that a newcomer can read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym.cli.app import RENAMED_COMMANDS, RENAMED_OPTIONS, app
from agentgym.deprecation import AgentGymDeprecationWarning
from agentgym.evaluation import Evaluation

USER_CODE = str(Path(__file__).with_name("acme_counter.py"))
AT_80_COLUMNS = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}


def agentgym(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env=AT_80_COLUMNS)


@pytest.mark.parametrize("command", ["eval", "rollout"])
@pytest.mark.parametrize("tasks", [["acme/counts-v1:train"], ["--tasks", "acme/counts-v1:train"]])
def test_tasks_are_an_argument_or_an_option(command, tasks):
    finished = agentgym(command, *tasks, "--policy", "oracle", "--limit", 2, "--import", USER_CODE)
    assert finished.exit_code == 0, finished.output
    assert "100" in finished.stdout


def test_tasks_given_twice_or_not_at_all_are_refused():
    twice = agentgym("eval", "a/b-v1", "--tasks", "a/b-v1", "--policy", "oracle")
    assert (twice.exit_code, "given twice" in twice.stderr) == (2, True)
    none = agentgym("rollout")
    assert (none.exit_code, "No tasks were given." in none.stderr) == (2, True)


def test_old_options_work_and_are_reported_with_the_new_name(tmp_path, monkeypatch):
    monkeypatch.setitem(RENAMED_OPTIONS, "eval", {"--samples": "--group-size", "--max-tokens": "--max-turn-tokens"})
    words = ["acme/counts-v1", "--policy", "oracle", "--limit", 2, "--import", USER_CODE, "--json", tmp_path / "e.json"]
    with pytest.warns(AgentGymDeprecationWarning) as warnings:
        finished = agentgym("eval", *words, "--samples", 2, "--max-tokens=64")
    assert finished.exit_code == 0, finished.output
    notes = " ".join(str(warning.message) for warning in warnings)
    assert "--samples of agentgym eval is now --group-size" in notes
    assert "--max-tokens of agentgym eval is now --max-turn-tokens" in notes
    assert json.loads((tmp_path / "e.json").read_text())["group_size"] == 2


@pytest.mark.parametrize("old", [("rescore",), ("credit", "rescore")], ids=" ".join)
def test_old_commands_work_and_are_reported_with_the_new_name(old, monkeypatch):
    monkeypatch.setitem(RENAMED_COMMANDS, old, ("episodes", "rescore"))
    with pytest.warns(DeprecationWarning, match=f"agentgym {' '.join(old)} is now agentgym episodes rescore"):
        finished = agentgym(*old, "--help")
    assert finished.exit_code == 0
    assert "Example: agentgym episodes rescore" in " ".join(finished.stdout.split())


def test_help_fits_80_columns_and_shows_the_commands_in_groups():
    lines = agentgym("--help").stdout.splitlines()
    assert max(map(len, lines)) <= 80
    for panel in ("Play and train", "Evaluate", "Look at runs", "Tasks and sandboxes"):
        assert f"{panel}:" in lines


def test_a_record_of_an_old_version_is_read():
    record = {
        "label": "after",
        "task_set": "a/b-v1",
        "split": "held_out",
        "fingerprint": "f",
        "policy": "p",
        "samples": 3,
        "seed": 0,
        "rows": [],
        "opened": 2,
    }
    evaluation = Evaluation.from_json(record)
    assert (evaluation.group_size, evaluation.held_out_uses) == (3, 2)
