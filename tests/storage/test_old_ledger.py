"""A ledger that agentgym 0.1 wrote is read, replayed and resumed.

tests/golden/ledger_of_version_0_1.sql is the dump of one that `agentgym rollout --tasks text/number-guess-v1:train
--limit 3 --group-size 2 --concurrency 2` of version 0.1.0 left when it was killed after its seventh turn.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentgym import StopReason
from agentgym.cli.app import app
from agentgym.storage import Ledger
from agentgym.storage.codec import provenance_from_json, provenance_to_json
from agentgym.storage.reader import LedgerReader
from agentgym.trajectory import PromptAddition

DUMP = Path(__file__).parents[1] / "golden" / "ledger_of_version_0_1.sql"
FINISHED = [f"rollout/train/{task}#{sample}" for task in ("0066", "1172") for sample in (0, 1)]
UNFINISHED = [f"rollout/train/1097#{sample}" for sample in (0, 1)]


@pytest.fixture
def run_folder(tmp_path):
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection:
        connection.executescript(DUMP.read_text(encoding="utf-8"))
    return tmp_path


def run_command(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.output


def test_it_is_read_without_being_changed(run_folder):
    before = (run_folder / "ledger.sqlite").read_bytes()
    reader = LedgerReader(run_folder / "ledger.sqlite")
    trajectory = reader.load(FINISHED[0])
    reader.close()
    assert [result.content for turn in trajectory.turns for result in turn.results] == [
        "higher, 2 left",
        "lower, 1 left",
        "correct",
    ]
    assert (trajectory.stop_reason, trajectory.outcome) == (
        StopReason.ENVIRONMENT,
        {"success": 1.0, "progress": 1.0},
    )
    provenance = trajectory.provenance
    assert (provenance.agentgym, provenance.policy, provenance.max_turn_tokens) == ("0.1.0", "oracle", 512)
    assert provenance.extra == {}
    assert (run_folder / "ledger.sqlite").read_bytes() == before


def test_its_finished_episodes_replay(run_folder):
    assert "4 episodes" in run_command("episodes", "replay", run_folder)


def test_a_run_that_broke_off_is_resumed_and_its_finished_episodes_are_not_played_again(run_folder):
    ledger = Ledger(run_folder / "ledger.sqlite")
    assert ledger.finished("rollout") == set(FINISHED)
    assert not ledger.load(UNFINISHED[0]).valid
    before = {episode_id: ledger.load(episode_id) for episode_id in FINISHED}
    ledger.close()
    tasks = ("--tasks", "text/number-guess-v1:train", "--limit", 3, "--group-size", 2)
    run_command("rollout", *tasks, "--out", run_folder)
    ledger = Ledger(run_folder / "ledger.sqlite")
    assert ledger.finished("rollout") == {*FINISHED, *UNFINISHED}
    assert {episode_id: ledger.load(episode_id) for episode_id in FINISHED} == before
    assert all(ledger.load(episode_id).success == 1.0 for episode_id in UNFINISHED)
    ledger.close()


def test_what_was_put_before_the_agent_and_its_attempts_are_read_from_the_keys_of_0_2():
    old = {
        "agentgym": "0.2.0",
        "attempts": {"n": 2, "feedback": "none"},
        "instruction": "Be brief.",
        "knowledge": "What earlier episodes have taught: count.",
        "assistance": {"kind": "hint", "text": "Count to 2.", "share": 0.5, "role": "helped"},
    }
    provenance = provenance_from_json(old)
    assert provenance.additions == (
        PromptAddition("instruction", "Be brief.", "system"),
        PromptAddition("knowledge", "What earlier episodes have taught: count."),
        PromptAddition("hint", "Count to 2.", is_help=True, share=0.5, role="helped"),
    )
    assert (provenance.instruction, provenance.knowledge) == (old["instruction"], old["knowledge"])
    assert provenance.assistance == provenance.additions[2]
    assert provenance.attempts == provenance.hooks["attempts"] == {"n": 2, "feedback": "none"}
    assert provenance.extra == {}
    assert provenance_from_json(provenance_to_json(provenance)) == provenance
