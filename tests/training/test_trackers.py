"""Trackers: what a run logs arrives there, each package in its own environment where CI installs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym import registry
from agentgym.bridges.trackers import _same_id
from agentgym.errors import RecipeError
from agentgym.storage.run_folder import RunFolder, StageFolder
from agentgym.storage.trackers import check_trackers, tracked

ROOT = Path(__file__).parents[2]
ROWS = [(1, "warm_start", {"loss": 2.0}), (1, "train", {"reward": 0.25}), (2, "train", {"reward": 0.5, "kl": 0.1})]
SEND = """
import json, sys
from pathlib import Path
from agentgym.storage.trackers import check_trackers, tracked
OFFERED
name, folder, rows = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
check_trackers([name])
warnings = []
with tracked([name], folder, {"name": "a", "train": {"steps": 2}}, warnings.append) as log:
    for row in rows:
        log(*row)
assert not warnings, warnings
"""
FAIL = """
import sys
from pathlib import Path
from agentgym.storage.trackers import tracked
OFFERED
warnings = []
try:
    with tracked([sys.argv[1]], Path(sys.argv[2]), {"name": "a", "train": {"steps": 3}}, warnings.append):
        raise RuntimeError("the training fails")
except RuntimeError:
    pass
assert not warnings, warnings
"""
OFFERED = """
from agentgym import register
from bridges import trackers  # of this checkout, which is not installed there

for tracker in (trackers.Wandb, trackers.Trackio, trackers.Mlflow):
    register(tracker.package, tracker, kind="trackers")
"""
READ = {
    "mlflow": """
from mlflow import MlflowClient
client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
[run] = client.search_runs([client.get_experiment_by_name("agentgym").experiment_id])
seen = [[m.step, m.value] for m in client.get_metric_history(run.info.run_id, "train/reward")]
seen = [seen, run.data.params["train.steps"], run.info.status]
""",
    "trackio": """
import trackio
from trackio.sqlite_storage import SQLiteStorage
[run] = trackio.Api().runs("agentgym")
rows = SQLiteStorage.get_logs("agentgym", run.name)
seen = [[row["train/step"], row["train/reward"]] for row in rows if "train/reward" in row]
seen = [seen, str(run.config["train"]["steps"]), "FINISHED"]
""",
    "wandb": """
import struct
from wandb.proto import wandb_internal_pb2

def records(data):
    "Of a log as LevelDB writes it: blocks of 32 KiB, records with a header of 7 bytes, of which parts are joined."
    at, parts = 7, b""
    while at + 7 <= len(data):
        if at % 32768 > 32768 - 7:
            at += 32768 - at % 32768
        _, length, kind = struct.unpack("<IHB", data[at : at + 7])
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield parts
            parts = b""

seen, steps = [], None
files = sorted(folder.glob("wandb/offline-run-*/*.wandb"))
for file in files:
    for data in records(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        row = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
        if "train/reward" in row:
            seen.append([row["train/step"], row["train/reward"]])
        for update in record.run.config.update:
            if update.key == "train":
                steps = json.loads(update.value_json)["steps"]
assert len({file.name for file in files}) == 1
seen = [seen, str(steps), "FINISHED"]
""",
}


@pytest.mark.parametrize("name", READ)
def test_rows_arrive_and_a_resumed_run_goes_on(name, tmp_path):
    if not (python := os.environ.get("AGENTGYM_TRACKERS_PYTHON")):
        pytest.skip("AGENTGYM_TRACKERS_PYTHON names no interpreter that has wandb, trackio and mlflow")
    folder = tmp_path / "run"
    folder.mkdir()
    variables = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "TRACKIO_DIR": str(tmp_path / "trackio")}
    environment = {**os.environ, **variables, "HF_HUB_OFFLINE": "1"}

    def run(program, *arguments):
        command = [python, "-c", program.replace("OFFERED", OFFERED), name, str(folder), *arguments]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
        return done.stdout

    run(SEND, json.dumps(ROWS[:2]))
    run(SEND, json.dumps(ROWS[2:]))  # as after an interruption
    head = "import json, sys\nfrom pathlib import Path\nfolder = Path(sys.argv[2])\n"
    read = head + READ[name] + "\nprint(json.dumps(seen))"
    assert json.loads(run(read).splitlines()[-1]) == [[[1, 0.25], [2, 0.5]], "2", "FINISHED"]
    if name == "mlflow":  # which knows how a run ended, and takes a parameter once
        run(FAIL)
        assert json.loads(run(read).splitlines()[-1])[1:] == ["2", "FAILED"]


def test_every_stage_of_a_run_is_sent_to_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = RunFolder(tmp_path / "run").create()
    with tracked(["tensorboard"], run.path, {}, pytest.fail) as log:
        run.listeners.append(log)
        run.log(1, "train", reward=0.5)
        StageFolder(run, "second").log(3, "train", reward=0.75)
    events = EventAccumulator(str(run.path / "tensorboard"))
    events.Reload()
    values = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    assert values == {"train/reward": [(1, 0.5)], "second/reward": [(3, 0.75)]}
    assert [row["phase"] for row in run.metrics()] == ["train", "second"]


def test_a_tracker_that_fails_is_named_once_and_the_run_goes_on(tmp_path, monkeypatch):
    class Broken:
        def __init__(self, *_):
            self.rows = 0

        def log(self, step, phase, metrics):
            raise ConnectionError("no service")

    def unreachable(*_):
        raise OSError("no network")

    monkeypatch.setitem(registry._registered, "trackers", {"a": Broken, "b": unreachable})
    warnings = []
    with tracked(["a", "b"], tmp_path, {}, warnings.append) as log:
        for row in ROWS:
            log(*row)
    assert warnings == [
        "The tracker b failed and gets no more metrics of this run: OSError: no network",
        "The tracker a failed and gets no more metrics of this run: ConnectionError: no service",
    ]


def test_a_run_that_fails_is_closed_as_failed(tmp_path, monkeypatch):
    ends = []

    class Recorder:
        def __init__(self, *_):
            pass

        def close(self, *, failed):
            ends.append(failed)

    monkeypatch.setitem(registry._registered, "trackers", {"recorder": Recorder})
    with tracked(["recorder"], tmp_path, {}, pytest.fail):
        pass
    with pytest.raises(KeyboardInterrupt), tracked(["recorder"], tmp_path, {}, pytest.fail):
        raise KeyboardInterrupt
    assert ends == [False, True]


def test_an_id_that_was_half_written_is_none(tmp_path, monkeypatch):
    def killed(path, *_, **__):
        path.touch()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", killed)
        with pytest.raises(KeyboardInterrupt):
            _same_id(tmp_path, "wandb", lambda: "one")
    assert _same_id(tmp_path, "wandb", lambda: "two") == "two"


def test_a_tracker_that_is_missing_or_unknown_is_named_before_a_run(monkeypatch):
    with pytest.raises(
        RecipeError,
        match=r"track = \['wand'\] cannot be used.*Did you mean 'wandb'",
    ):
        check_trackers(["wand"])
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.setattr("agentgym._imports.find_spec", lambda name: None)
    with pytest.raises(
        RecipeError, match=r"track = \['wandb'\] needs the package wandb, which is not installed. Run: pip install"
    ):
        check_trackers(["wandb"])
