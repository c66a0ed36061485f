"""What a mistyped or old name prints: one message that gives the right name, before anything starts."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import tomli_w
from typer.testing import CliRunner

from agentgym.cli.app import app

TASKS = ["text/number-guess-v1", "--policy", "oracle", "--limit", "1"]
RECIPE = Path(__file__).parents[2] / "recipes" / "quickstart.toml"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["eval", "text/number-gues-v1", "--policy", "oracle"], "Did you mean 'text/number-guess-v1'?"),
        (["eval", "text/number-guess-v1:traim", "--policy", "oracle"], "The splits are: train, validation, held_out."),
        (["eval", "text/number-guess-v1", "--policy", "orakle"], "Did you mean oracle?"),
        (["rollout", *TASKS, "--backend", "dockr"], "Did you mean 'docker'?"),
        (["rollout", *TASKS, "--reward", "math_verfy"], "Did you mean 'math_verify'?"),
        (
            ["rollout", *TASKS, "--import", "nowhere.py"],
            "--import nowhere.py: this file does not exist. Check the path.",
        ),
        (["play", "agentgym/sqll-v1"], "Did you mean 'agentgym/sql-v1'?"),
        (["check", "agentgym/sqll-v1"], "Did you mean 'agentgym/sql-v1'?"),
        (["list", "enviroments"], "environments"),
        (["train", "nowhere.toml"], "Cannot read the recipe nowhere.toml"),
        (["show", "nowhere"], "There is no run at nowhere."),
        (["compare", "a.json", "b.json"], "There is no file a.json. In .: none."),
        (["report", "nowhere"], "nowhere"),
        (["episodes", "replay", "nowhere"], "There is no run at nowhere."),
        (["export", "nowhere", "--out", "nowhere.eval"], "nowhere"),
        (["dev", "credit-bench", "--estimators", "rlo"], "Did you mean 'rloo'?"),
        (["eval", *TASKS, "--max-turn-token", "5"], "--max-turn-tokens"),
        (["eval", *TASKS, "--group-size", "none"], "Invalid value for '--group-size'"),
        (["evaluate"], "No such command 'evaluate'."),
        (["doctor"], " sandbox doctor'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_name_is_one_message_with_the_right_one(words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    finished = CliRunner().invoke(app, words, env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
    assert finished.exit_code == 2
    assert message in finished.stderr
    assert "Traceback" not in finished.stderr
    assert finished.stdout == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import no_such_module\n", "No module named 'no_such_module' at mine_{0}.py:1. Correct the file"),
        ("\nclas Shop:\n    pass\n", "SyntaxError: invalid syntax (mine_{0}.py, line 2). Correct the file"),
        ("from agentgym import register\nregister('a/b-v1', 1, kind='task')\n", "at mine_{0}.py:2. Correct the file"),
    ],
)
def test_an_error_in_an_imported_file_is_named_with_its_line(code, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    number = abs(hash(code))
    (tmp_path / f"mine_{number}.py").write_text(code)
    finished = CliRunner().invoke(app, ["list", "rewards", "--import", f"mine_{number}.py"], env={"COLUMNS": "300"})
    assert finished.exit_code == 2
    assert message.format(number) in finished.stderr


def agentgym(*words, **options):
    return subprocess.run(
        [sys.executable, "-c", "from agentgym.cli import main; main()", *words],
        capture_output=True,
        text=True,
        **options,
    )


def test_an_old_key_of_a_recipe_is_reported_in_one_line(tmp_path):
    recipe = tomllib.loads(RECIPE.read_text())
    recipe["evaluate"] = {"samples": 2}
    recipe["tasks"]["set"] = "nobody/has-it-v1"  # found after the keys were read, so that nothing is trained
    (tmp_path / "old.toml").write_text(tomli_w.dumps(recipe))
    rename = (
        "from agentgym.training.recipe.keys import RENAMED_KEYS as k; k['evaluate.samples'] = 'evaluate.group_size'"
    )
    main = "from agentgym.cli import main; main()"
    command = [sys.executable, "-c", f"{rename}; {main}", "train", "old.toml"]
    finished = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    warning, error = finished.stderr.splitlines()
    assert finished.returncode == 2
    assert warning.startswith("Warning: evaluate.samples is now evaluate.group_size. The old name stops working in")
    assert error.startswith("Error: ")
    assert "nobody/has-it-v1" in error
