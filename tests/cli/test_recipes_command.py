"""`agentgym recipes` and `agentgym demo`: the bundled runs, also from the wheel alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from typer.testing import CliRunner

from agentgym import _imports
from agentgym.cli.app import app
from agentgym.training.recipe.keys import bundled_recipes

ROOT = Path(__file__).parents[2]


def agentgym(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_every_recipe_is_listed_with_what_it_does():
    lines = agentgym("recipes").stdout.splitlines()
    assert [line.split()[0] for line in lines] == sorted(bundled_recipes())
    assert all(len(line.split(maxsplit=1)) == 2 for line in lines)
    assert "sql" not in {line.split()[0] for line in lines}


def test_a_recipe_is_printed_as_it_is_and_copied_to_a_new_file_only(tmp_path):
    source = (ROOT / "recipes" / "quickstart.toml").read_text()
    assert agentgym("recipes", "quickstart").stdout == source
    copy = tmp_path / "mine.toml"
    assert agentgym("recipes", "quickstart", "--out", copy).exit_code == 0
    assert copy.read_text() == source
    second = agentgym("recipes", "text", "--out", copy)
    assert (second.exit_code, copy.read_text()) == (2, source)
    assert "exists. Remove it, or name another file in --out." in second.stderr


def test_an_unknown_recipe_and_a_copy_of_none_are_one_message_each():
    assert "Did you mean 'quickstart'?" in agentgym("recipes", "quickstrat").stderr
    assert "name it, for example agentgym recipes quickstart" in agentgym("recipes", "--out", "mine.toml").stderr


def test_the_demo_names_what_it_needs_before_it_begins(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "trl", None)
    done = agentgym("demo", "--out", tmp_path / "run")
    assert done.exit_code == 2
    assert "The demo trains a model, which needs the package trl" in done.stderr
    assert not (tmp_path / "run").exists()


def test_an_extra_comes_from_the_wheel_that_agentgym_came_from(monkeypatch, tmp_path):
    wheel = tmp_path / "agentgym core-1.0-py3-none-any.whl"
    monkeypatch.setattr(_imports, "__file__", str(tmp_path / "agentgym" / "_imports.py"))

    class Installed:
        def read_text(self, name):
            return json.dumps({"url": wheel.as_uri(), "archive_info": {}})

    monkeypatch.setattr("importlib.metadata.distribution", lambda name: Installed())
    assert _imports.install_command("train") == "pip install 'agentgym-core[train]'", "the wheel is gone"
    wheel.touch()
    assert _imports.install_command("train") == f"pip install '{wheel}[train]'"
