"""Notes on a run: written whole or not at all, by one writer after another, and shown without hidden characters."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from typer.testing import CliRunner

from agentgym.cli.app import app
from agentgym.errors import LedgerError
from agentgym.storage.notes import MAX_LENGTH, read_notes, why_not_writable, write_note


@pytest.fixture
def run(tmp_path):
    (tmp_path / "recipe.toml").write_text('name = "noted"\n')
    return tmp_path


def test_notes_are_read_as_they_were_written_and_an_empty_text_removes_one(run):
    assert read_notes(run) == {}
    assert write_note(run, " Diverged at step 40.\r\nLower the rate. \n") == "Diverged at step 40.\nLower the rate."
    write_note(run, "Guesses the column.", "train-000000/a#0")
    assert read_notes(run) == {"": "Diverged at step 40.\nLower the rate.", "train-000000/a#0": "Guesses the column."}
    write_note(run, " ")
    assert read_notes(run) == {"train-000000/a#0": "Guesses the column."}


def test_a_note_that_is_too_long_is_refused_and_the_old_one_stays(run):
    write_note(run, "x" * MAX_LENGTH)
    with pytest.raises(LedgerError, match="2,001 characters"):
        write_note(run, "y" * (MAX_LENGTH + 1))
    assert read_notes(run)[""] == "x" * MAX_LENGTH


def test_characters_that_hide_or_reorder_text_are_visible(run):
    write_note(run, "a\x1b[31m\u202eb\ud800")
    assert read_notes(run)[""] == "a\N{SYMBOL FOR ESCAPE}[31m⟨U+202E⟩b⟨U+D800⟩"
    (run / "notes.json").write_text(json.dumps([{"episode": "", "text": "\u202e"}]))
    assert read_notes(run)[""] == "⟨U+202E⟩"


def test_writers_at_once_lose_no_note(run):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: write_note(run, f"note {i}", f"episode {i}"), range(40)))
    assert read_notes(run) == {f"episode {i}": f"note {i}" for i in range(40)}


@pytest.mark.parametrize("content", ["{", "7", "[1]", '[{"text": "x"}]', '{"a": 1}'])
def test_a_damaged_file_is_named_and_not_overwritten(run, content):
    (run / "notes.json").write_text(content)
    for use in (read_notes, lambda path: write_note(path, "new")):
        with pytest.raises(LedgerError, match=r"notes\.json"):
            use(run)
    assert (run / "notes.json").read_text() == content


@pytest.mark.parametrize("name", ["notes.json", ".notes.json.partial", ".notes.lock"])
def test_a_link_in_the_folder_leads_no_write_out_of_it(run, name, tmp_path_factory):
    outside = tmp_path_factory.mktemp("outside") / "file"
    outside.write_text("[]")
    (run / name).symlink_to(outside)
    with pytest.raises(LedgerError):
        write_note(run, "new")
    assert outside.read_text() == "[]"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_named_once(run):
    run.chmod(0o555)
    try:
        assert "is read-only" in why_not_writable(run)
        with pytest.raises(LedgerError, match="Permission denied"):
            write_note(run, "new")
    finally:
        run.chmod(0o755)


def test_show_prints_the_note_on_the_run(run):
    assert why_not_writable(run) == ""
    write_note(run, "[bold]Diverged[/] at step 40.")
    done = CliRunner().invoke(app, ["show", str(run)])
    assert "note: [bold]Diverged[/] at step 40." in done.output
    (run / "notes.json").write_text("{")
    done = CliRunner().invoke(app, ["show", str(run)])
    assert done.exit_code == 0
    assert "could not be read" in done.output
