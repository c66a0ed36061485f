"""The folder of a run: nothing made too early, nothing half-written read back, no other folder touched."""

from __future__ import annotations

import json
import os

import pytest

from agentgym.errors import LedgerError
from agentgym.storage.run_folder import RunFolder


def test_naming_a_folder_makes_nothing(tmp_path):
    folder = RunFolder(tmp_path / "runs" / "new")
    assert folder.name == "new"
    assert folder.metrics() == []
    assert not folder.path.exists()


def test_metrics_come_back_in_order_and_by_phase(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.log(0, "warm_start", loss=2.5)
    folder.log(1, "train", reward=0.25, loss=1.0)
    folder.log(2, "train", reward=0.5)
    rows = folder.metrics()
    assert [(row["step"], row["phase"]) for row in rows] == [(0, "warm_start"), (1, "train"), (2, "train")]
    assert [row["reward"] for row in folder.metrics("train")] == [0.25, 0.5]
    assert all(isinstance(row["time"], float) for row in rows)


def test_metrics_may_be_numbers_of_numpy(tmp_path):
    import numpy as np

    folder = RunFolder(tmp_path / "run")
    folder.log(1, "train", reward=np.float32(0.5), count=np.int64(3))
    assert folder.metrics()[0]["reward"] == 0.5
    assert folder.metrics()[0]["count"] == 3


def test_a_line_is_on_disk_as_soon_as_it_is_logged(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.log(1, "train", reward=0.5)
    assert json.loads(folder.metrics_file.read_text())["reward"] == 0.5


@pytest.mark.parametrize("cut", [1, 10, 30])
def test_a_half_written_last_line_is_left_out_and_the_next_line_is_not_glued_to_it(tmp_path, cut):
    folder = RunFolder(tmp_path / "run")
    folder.log(1, "train", reward=0.5)
    folder.log(2, "train", reward=0.75)
    content = folder.metrics_file.read_bytes()
    folder.metrics_file.write_bytes(content[: -1 - cut])
    assert [row["step"] for row in folder.metrics()] == [1]
    folder.log(3, "train", reward=1.0)
    assert [row["step"] for row in folder.metrics()] == [1, 3]


def test_json_is_written_whole_and_replaces_the_old(tmp_path):
    folder = RunFolder(tmp_path / "run")
    path = folder.write_json("evaluation/before.json", {"label": "before", "odd": "\ud800 ü"})
    folder.write_json("evaluation/before.json", {"label": "again"})
    assert folder.read_json("evaluation/before.json") == {"label": "again"}
    assert folder.evaluations() == ["before"]
    assert [item.name for item in path.parent.iterdir()] == ["before.json"]


def test_data_that_is_no_json_leaves_the_old_file(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.write_json("state.json", {"step": 1})
    with pytest.raises(TypeError):
        folder.write_json("state.json", {"step": object()})
    assert folder.read_json("state.json") == {"step": 1}


def test_a_failing_disk_leaves_the_old_file_and_no_debris(tmp_path, monkeypatch):
    folder = RunFolder(tmp_path / "run")
    folder.write_json("state.json", {"step": 1})

    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LedgerError, match=r"state\.json cannot be written: No space left"):
        folder.write_json("state.json", {"step": 2})
    assert folder.read_json("state.json") == {"step": 1}
    assert [item.name for item in folder.path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("name", ["../escaped.json", "/tmp/escaped.json", ""])
def test_a_name_that_leaves_the_folder_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="inside the run folder"):
        RunFolder(tmp_path / "run").write_json(name, {})


def test_what_was_never_written_says_so(tmp_path):
    with pytest.raises(LedgerError, match=r"state\.json does not exist"):
        RunFolder(tmp_path / "run").read_json("state.json")


def test_a_folder_with_other_things_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("do not touch")
    with pytest.raises(LedgerError, match=r"is not a run folder: it contains thesis\.tex"):
        RunFolder(tmp_path)


def test_a_file_is_refused(tmp_path):
    (tmp_path / "x").write_text("")
    with pytest.raises(LedgerError, match="is a file, not a run folder"):
        RunFolder(tmp_path / "x")


def test_an_empty_folder_and_an_earlier_run_are_accepted(tmp_path):
    (tmp_path / "empty").mkdir()
    RunFolder(tmp_path / "empty").log(1, "train")
    assert len(RunFolder(tmp_path / "empty").metrics()) == 1


def test_asking_for_an_existing_run_names_those_there_are(tmp_path):
    RunFolder(tmp_path / "quickstart").log(1, "train")
    assert RunFolder.existing(tmp_path / "quickstart").name == "quickstart"
    with pytest.raises(LedgerError, match=r"no run at .*quikstart.*quickstart"):
        RunFolder.existing(tmp_path / "quikstart")
