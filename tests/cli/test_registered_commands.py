"""A package adds commands by entry points: they run, they stand in the help of their group, and load when asked for."""

from __future__ import annotations

import sys

import pytest
from typer.testing import CliRunner

from agentgym import registry
from agentgym.cli.app import app

ENTRY_POINTS = """
[agentgym.commands]
tasks.count = acme_commands:count
acme = acme_commands:group
tasks.import = acme_commands:count
tasks.lost = acme_nowhere:count
"""
CODE = """
import typer
group = typer.Typer(help="Everything of Acme.")

def count(number: int) -> None:
    \"\"\"Count to a number.\"\"\"
    typer.echo(" ".join(map(str, range(1, number + 1))))

group.command()(count)

@group.command()
def greet() -> None:
    \"\"\"Greet.\"\"\"
    typer.echo("Good morning")
"""


@pytest.fixture(autouse=True)
def a_package(tmp_path, monkeypatch):
    """Install a package with these entry points."""
    information = tmp_path / "acme_commands-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-commands\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "acme_commands.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    registry._points.cache_clear()
    yield
    registry._points.cache_clear()
    sys.modules.pop("acme_commands", None)


def agentgym(*words: str):
    return CliRunner().invoke(app, words, env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})


def test_a_function_becomes_a_command_of_a_group_and_an_application_a_group():
    assert agentgym("tasks", "count", "3").stdout == "1 2 3\n"
    assert agentgym("acme", "count", "2").stdout == "1 2\n"
    assert agentgym("acme", "greet").stdout == "Good morning\n"
    assert "Everything of Acme." in agentgym("--help").stdout


def test_a_command_is_imported_when_it_is_asked_for_and_not_before():
    assert agentgym("tasks", "weak", "--help").exit_code == 0
    assert "acme_commands" not in sys.modules
    assert agentgym("tasks", "count", "1").exit_code == 0
    assert "acme_commands" in sys.modules


def test_a_built_in_command_keeps_its_name():
    assert "Count to a number." not in agentgym("tasks", "import", "--help").stdout


def test_a_command_whose_module_is_missing_is_one_line_that_names_the_package():
    finished = agentgym("tasks", "lost")
    assert finished.exit_code == 2
    assert "by the package 'acme-commands', but there is no module 'acme_nowhere'" in " ".join(finished.output.split())


def test_an_unknown_command_is_an_error_of_usage():
    finished = agentgym("tasks", "weigh")
    assert finished.exit_code == 2
    assert "No such command 'weigh'" in finished.output
