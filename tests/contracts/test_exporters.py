"""Every registered exporter, through `agentgym export`: it writes a file, or one message says why there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.registry import names, register
from agentgym.storage import Ledger, RunFolder

pytest.importorskip("datasets", reason="the extra `data` is not installed")
PLAIN = {"COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"}
every_exporter = pytest.mark.parametrize("name", names("exporters"))


def agentgym(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env=PLAIN)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run with the evaluation `shown`, of two tasks that the oracle solves."""
    folder = tmp_path_factory.mktemp("export") / "run"
    done = agentgym(
        "eval", "text/number-guess-v1:train", "--policy", "oracle", "--limit", 2, "--label", "shown", "--out", folder
    )
    assert done.exit_code == 0, done.output
    return folder


def refusal(folder: Path, *words) -> str:
    """The message of an export that is refused, which has left nothing in the folder."""
    done = agentgym("export", *words)
    assert done.exit_code == 2, done.output
    assert done.stderr.count("Error: ") == 1
    assert "Traceback" not in done.stderr
    assert not list(folder.iterdir())
    return done.stderr


@every_exporter
def test_an_option_that_does_not_exist_is_named(name, run, tmp_path):
    message = refusal(tmp_path, run, "--format", f"{name}(colour=1)", "--label", "shown", "--out", tmp_path / "x")
    assert f"{name!r} has no option 'colour'" in message


@every_exporter
def test_an_empty_ledger_is_said(name, tmp_path):
    folder = RunFolder(tmp_path / "run").create()
    Ledger(folder.ledger).close()
    (tmp_path / "out").mkdir()
    refusal(tmp_path / "out", folder.path, "--format", name, "--out", tmp_path / "out" / "x")


@every_exporter
def test_a_file_that_cannot_be_written_is_named(name, run, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    target = tmp_path / "file" / "x"
    message = refusal(tmp_path / "empty", run, "--format", name, "--label", "shown", "--out", target)
    assert f"Cannot write {target}: " in message


@every_exporter
def test_an_evaluation_that_the_run_does_not_have_is_named_with_those_it_has(name, run, tmp_path):
    message = refusal(tmp_path, run, "--format", name, "--label", "never", "--out", tmp_path / "x")
    assert "has no evaluation 'never'. Its evaluations are: shown." in message


@every_exporter
def test_an_evaluation_is_written_unless_a_message_says_why_not(name, run, tmp_path):
    done = agentgym("export", run, "--format", name, "--label", "shown", "--out", tmp_path / "new" / "x")
    written = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert (written == ["x"]) == (done.exit_code == 0) == (done.stderr == "")
    assert done.exit_code in (0, 2)


def test_a_package_adds_a_format_with_an_option(run, tmp_path):
    """The example of docs/start.md: a line per episode."""

    def write_ids(evaluation, trajectories, target, *, upper: bool = False):
        ids = [trajectory.id.upper() if upper else trajectory.id for trajectory in trajectories]
        target.write_text("\n".join(ids))
        return len(ids)

    register("ids_of_this_test", write_ids, kind="exporters")
    done = agentgym("export", run, "--format", "ids_of_this_test(upper=True)", "--out", tmp_path / "ids.txt")
    assert done.exit_code == 0, done.output
    assert done.stdout == f"{tmp_path / 'ids.txt'}: 2 rows\n"
    assert all(line.isupper() for line in (tmp_path / "ids.txt").read_text().splitlines())
    (tmp_path / "none").mkdir()
    wrong = (run, "--format", "ids_of_this_test(upper='yes')", "--out", tmp_path / "none" / "ids.txt")
    assert "is 'yes': expected a valid boolean" in refusal(tmp_path / "none", *wrong)
