"""`agentgym list` names everything that is registered without importing it."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym import registry
from agentgym.cli.app import app
from agentgym.cli.listing import describe, in_columns

USER_CODE = str(Path(__file__).with_name("acme_counter.py"))
AT_80_COLUMNS = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}


def agentgym(*words):
    return CliRunner().invoke(app, list(words), env=AT_80_COLUMNS)


def test_every_registered_name_is_printed_once_within_80_columns():
    listed = agentgym("list", "--import", USER_CODE)
    assert listed.exit_code == 0
    names = [word for line in listed.stdout.splitlines() if line.startswith("  ") for word in line.split()]
    assert sorted(names) == sorted(name for _, name in registry.everything())
    assert "acme/counter-v1" in names
    assert max(map(len, listed.stdout.splitlines())) <= 80
    assert len(listed.stdout.splitlines()) < len(names) / 2


@pytest.mark.parametrize("arguments", [["list"], ["list", "environments"], ["list", "policies"], ["list", "--json"]])
def test_listing_imports_nothing_that_it_lists(arguments):
    code = (
        "import sys; from typer.testing import CliRunner; from agentgym.cli.app import app\n"
        f"result = CliRunner().invoke(app, {arguments!r})\n"
        "heavy = {m for m in sys.modules if m.partition('.')[0] in {'torch', 'transformers', 'trl', 'scipy'}\n"
        "         or m.startswith(('agentgym.sandboxes', 'agentgym.tasks', 'agentgym.rewards', 'agentgym.credit'))}\n"
        "sys.exit(f'loaded {sorted(heavy)}' if heavy else result.exit_code)"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=AT_80_COLUMNS)
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("kind", registry.KINDS)
def test_a_description_read_from_source_is_the_first_line_of_the_docstring(kind):
    for name in registry.names(kind):
        registered = registry.load(kind, name)
        docstring = getattr(registered, "summary", None) or inspect.getdoc(registered) or ""
        assert describe(kind, name) == docstring.strip().partition("\n")[0], name


@pytest.mark.parametrize("kind", ["environments", "task_sets", "importers", "rewards", "assets"])
def test_a_description_tells_a_name_from_every_other(kind):
    names = [name for name in registry.names(kind) if registry.origin(kind, name)]  # not what other tests registered
    assert len({describe(kind, name) for name in names} - {""}) == len(names) > 10


def test_one_kind_is_printed_with_one_line_for_each_name_when_piped():
    listed = agentgym("list", "environment", "--import", USER_CODE)
    assert "return_to_go" not in listed.stdout
    assert len(listed.stdout.splitlines()) == len(registry.names("environments"))
    [line] = [line for line in listed.stdout.splitlines() if line.startswith("acme/counter-v1 ")]
    assert line.endswith("Count to the number that is asked for.")


def test_kinds_are_understood_in_the_singular_and_with_hyphens():
    for text in ("task-sets", "task_set", "policy", "backend"):
        assert agentgym("list", text).exit_code == 0
    unknown = agentgym("list", "colours")
    assert unknown.exit_code == 2
    assert "There is no kind 'colours'" in unknown.stderr
    assert "environments, task_sets" in unknown.stderr


def test_json_holds_names_descriptions_and_where_each_comes_from():
    rows = json.loads(agentgym("list", "--json", "--import", USER_CODE).stdout)
    assert list(rows) == list(registry.KINDS)
    by_name = {row["name"]: row for row in rows["environments"]}
    assert by_name["acme/counter-v1"]["entry_point"] is None
    assert by_name["agentgym/sql-v1"]["entry_point"] == "agentgym.sandboxes.sql:Sql"
    assert by_name["agentgym/sql-v1"]["description"]


def test_names_that_are_wider_than_the_terminal_stand_alone_and_whole():
    assert in_columns(["a" * 100, "b"], 80) == ["  " + "a" * 100, "  b"]
    assert in_columns(["a", "b", "c"], 10) == ["  a  c", "  b"]
    assert in_columns([], 80) == []
