"""Exports are read back by the tools they are for: `datasets`, and Inspect where CI installs it."""

from __future__ import annotations

import json
import math
import os
import subprocess
from pathlib import Path

import pytest
from sample_run import make
from typer.testing import CliRunner

from agentgym.bridges.inspect.log import inspect_log
from agentgym.bridges.parquet import row_of_episode, write_parquet
from agentgym.cli.app import app
from agentgym.deprecation import AgentGymDeprecationWarning
from agentgym.evaluation.record import Evaluation
from agentgym.messages import Call, ImagePart, Message, TextPart
from agentgym.storage.ledger import Ledger
from agentgym.task.task_set import canary_of

READ = """
import json, sys
from inspect_ai.log import read_eval_log
log = read_eval_log(sys.argv[1])
samples = [(s.id, s.epoch, len(s.messages), s.scores and next(iter(s.scores.values())).value) for s in log.samples]
mean = log.results.scores[0].metrics["mean"].value
print(json.dumps({"status": log.status, "mean": mean, "samples": samples}))
"""
ENVIRONMENT_VARIABLES = {**os.environ, "COLUMNS": "300", "NO_COLOR": "1", "TERM": "dumb"}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return make(tmp_path_factory.mktemp("export") / "run", samples=2, steps=2).path


def agentgym(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env=ENVIRONMENT_VARIABLES)


def record_and_episodes(run: Path) -> tuple[Evaluation, list]:
    after = Evaluation.load(run / "evaluation" / "after.json")
    ledger = Ledger(run / "ledger.sqlite")
    episodes = [ledger.load(f"{after.run}/{row.task}#{i}") for row in after.rows for i in range(2)]
    ledger.close()
    return after, episodes


def test_an_evaluation_is_a_log_of_inspect(run, tmp_path):
    done = agentgym("export", run, "--format", "inspect", "--label", "after", "--out", tmp_path / "after.json")
    assert done.exit_code == 0, done.output
    log = json.loads((tmp_path / "after.json").read_text())
    after, trajectories = record_and_episodes(run)
    assert list(log) == ["version", "status", "eval", "plan", "results", "stats", "samples"]
    assert log["results"]["scores"][0]["metrics"]["mean"]["value"] == pytest.approx(after.success().value)
    assert log["eval"]["config"]["epochs"] == 2
    assert log["eval"]["metadata"]["canary"] == canary_of(after.task_set)
    assert len(log["samples"]) == len(trajectories) == 240
    for sample, trajectory in zip(log["samples"], trajectories, strict=True):
        assert (sample["id"], sample["epoch"]) == (trajectory.task.id, trajectory.sample + 1)
        assert (sample["error"] is None) == trajectory.valid == (sample["scores"] is not None)
        ids = [call["id"] for m in sample["messages"] if m["role"] == "assistant" for call in m["tool_calls"]]
        assert len(set(ids)) == len(ids)
        assert [m["tool_call_id"] for m in sample["messages"] if m["role"] == "tool"] == ids
    assert any(m.get("error", {}).get("type") == "parsing" for s in log["samples"] for m in s["messages"])


def test_inspect_reads_the_log(run, tmp_path):
    """In an environment of its own, as in CI: 40 packages of other versions than ours."""
    if not (python := os.environ.get("AGENTGYM_INSPECT_PYTHON")):
        pytest.skip("AGENTGYM_INSPECT_PYTHON names no interpreter that has inspect_ai")
    file = tmp_path / "after.json"
    agentgym("export", run, "--format", "inspect", "--label", "after", "--out", file)
    finished = subprocess.run([python, "-c", READ, file], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert finished.returncode == 0, finished.stderr
    after, trajectories = record_and_episodes(run)
    read = json.loads(finished.stdout.splitlines()[-1])
    assert read["status"] == "success"
    assert read["mean"] == pytest.approx(after.success().value)
    assert [tuple(row) for row in read["samples"]] == [
        (t.task.id, t.sample + 1, len(t.messages()), t.success if t.valid else None) for t in trajectories
    ]


def test_images_and_broken_calls_survive_in_both_formats(run):
    after, trajectories = record_and_episodes(run)
    trajectory = next(t for t in trajectories if any(c.error for turn in t.turns for c in turn.calls))
    trajectory.opening = (*trajectory.opening, Message("user", (TextPart("look"), ImagePart("QUJD"))))
    sample = inspect_log(after, [trajectory])["samples"][0]
    assert sample["input"][-1]["content"] == [
        {"type": "text", "text": "look"},
        {"type": "image", "image": "data:image/png;base64,QUJD"},
    ]
    assert any(call.get("parse_error") for m in sample["messages"] for call in m.get("tool_calls", ()))
    turn = trajectory.turns[0]
    turn.token_ids, turn.logprobs, turn.policy_version, turn.version_changes = [1, 2], [-1.0, -1.0], 3, ((1, 5),)
    row = row_of_episode(trajectory, tokens=True)
    assert (row["first_versions"][turn.index], row["last_versions"][turn.index]) == (3, 5)
    assert {3, 5} <= set(row["versions"])
    assert inspect_log(after, [trajectory])["samples"][0]["metadata"]["policy_versions"][turn.index] == [3, 5]
    assert row["messages"][len(trajectory.opening) - 1]["images"] == ["data:image/png;base64,QUJD"]
    assert "truth" not in row
    assert len(row["token_ids"]) == len(row["loss_mask"]) == len(row["logprobs"])


@pytest.mark.parametrize(
    "message",
    [Message("assistant", "<think>\nhm\n</think>\n\nDone."), Message("assistant", "Done.", reasoning="hm")],
)
def test_a_thought_is_reasoning_and_no_speech_in_a_log_of_inspect(run, message):
    after, trajectories = record_and_episodes(run)
    trajectory = trajectories[0]
    trajectory.turns[-1].message = message
    sample = inspect_log(after, [trajectory])["samples"][0]
    [written] = [m for m in sample["messages"] if m["role"] == "assistant"][-1:]
    assert written["content"] == [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Done."}]
    assert sample["output"]["completion"] == "Done."


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_episodes_are_rows_that_datasets_reads(run, tmp_path):
    file = tmp_path / "episodes.parquet"
    done = agentgym("export", run, "--out", file, "--format", "parquet(tokens=True)", "--label", "after")
    assert done.exit_code == 0, done.output
    import pyarrow.parquet
    from datasets import Dataset

    assert pyarrow.parquet.read_schema(file).metadata[b"canary"].decode() == canary_of("sql/store-v1")
    rows = Dataset.from_parquet(str(file), cache_dir=str(tmp_path / "cache"))
    after, trajectories = record_and_episodes(run)
    assert rows.num_rows == 240
    for row, trajectory in zip(rows, trajectories, strict=True):
        assert row["id"] == trajectory.id
        assert row["success"] == (trajectory.success if trajectory.valid else None)
        assert [m["role"] for m in row["messages"]] == [m.role for m in trajectory.messages()]
    solved = [row["success"] for row in rows if row["success"] is not None]
    assert math.fsum(solved) == sum(sum(r.observed) for r in after.rows)
    both = agentgym("export", run, "--out", tmp_path / "all.parquet", "--list", "held-out")
    assert "480 rows" in both.stdout


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_half_of_a_surrogate_pair_is_written_as_what_stands_for_no_character(run, tmp_path):
    import pyarrow.parquet

    _, [trajectory, *_] = record_and_episodes(run)
    turn = trajectory.turns[0]
    turn.calls = (Call("f\ud800", {"x": "\udc00"}),)
    turn.message = Message("assistant", "a\ud800", turn.calls)
    write_parquet(None, [trajectory], tmp_path / "episodes.parquet", tokens=False)
    [row] = pyarrow.parquet.read_table(tmp_path / "episodes.parquet").to_pylist()
    message = row["messages"][len(trajectory.opening)]
    assert message["content"] == "a\ufffd"
    assert message["tool_calls"][0]["function"] == {"name": "f\ufffd", "arguments": '{"x": "\ufffd"}'}


def test_the_options_of_formats_keep_their_old_spelling_for_one_release(run, tmp_path):
    with pytest.warns(AgentGymDeprecationWarning, match=r'--tokens is now --format "parquet\(tokens=True\)"'):
        done = agentgym("export", run, "--out", tmp_path / "episodes.parquet", "--list", "held-out-after", "--tokens")
    assert done.exit_code == 0, done.output


def test_what_cannot_be_exported_is_said(run, tmp_path):
    for words, message in [
        ((run, "--format", "inspect", "--out", tmp_path / "x"), "holds one evaluation. Name it: --label NAME"),
        (
            (run, "--label", "never", "--out", tmp_path / "x"),
            "'never'. Its evaluations are: after, before.",
        ),
        ((run, "--list", "nothing", "--out", tmp_path / "x"), "no episode to export"),
        ((tmp_path, "--out", tmp_path / "x"), "There is no run"),
    ]:
        done = agentgym("export", *words)
        assert done.exit_code == 2
        assert message in done.stderr, done.stderr
    assert not list(tmp_path.glob("*.partial"))
