"""Trackers: what a run logs arrives there, each package in its own environment where CI installs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from agentgym import Call, Message, Result, Task, Trajectory, Turn, registry
from agentgym.bridges.trackers import _rows, _same_id
from agentgym.errors import RecipeError
from agentgym.storage.run_folder import RunFolder, StageFolder
from agentgym.storage.trackers import check_trackers, tracked

ROOT = Path(__file__).parents[2]
ROWS = [(1, "warm_start", {"loss": 2.0}), (1, "train", {"reward": 0.25}), (2, "train", {"reward": 0.5, "kl": 0.1})]
SEND = """
import json, sys
from pathlib import Path
from agentgym import Call, Message, Result, StopReason, Task, Trajectory, Turn
from agentgym.storage.trackers import check_trackers, tracked
OFFERED
name, folder, rows = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
call = Call("look", {"at": "<b>\\ud83d\\ude00</b>"}, "c")
turn = Turn(0, Message("assistant", "I look.", (call,)), (call,), [Result("a lamp", call_id="c", duration_s=0.1)])
last = Turn(1, Message("assistant", "lamp"), rewards={"short": 1.0}, generate_s=0.2)
opening = [Message("user", "What is here?")]
episode = Trajectory("train-000000/t1#0", Task("t1", "e", "What?"), opening=opening, turns=[turn, last],
                     outcome={"success": 1.0}, stop_reason=StopReason.ANSWERED, duration_s=0.5)
check_trackers([name])
warnings = []
config = {"name": "a", "train": {"steps": 2}}
with tracked([name], folder, config, warnings.append, lambda phase: [episode] * (phase == "train")) as log:
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
from bridges import spans, trackers  # of this checkout, which is not installed there

for tracker in (trackers.Wandb, trackers.Trackio, trackers.Mlflow):
    register(tracker.package, tracker, kind="trackers")
register("opentelemetry", spans.OpenTelemetry, kind="trackers")
"""
READ = {
    "mlflow": """
from mlflow import MlflowClient
client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
[run] = client.search_runs([client.get_experiment_by_name("agentgym").experiment_id])
seen = [[m.step, m.value] for m in client.get_metric_history(run.info.run_id, "train/reward")]
seen = [seen, run.data.params["train.steps"], run.info.status]
table = json.loads(next(folder.glob("mlflow/**/episodes-train.json")).read_text())
episodes = table["data"]
""",
    "opentelemetry": """
spans = [json.loads(line) for line in (folder / "spans.jsonl").read_text().splitlines()]
seen = [[[1, 0.25], [2, 0.5]], "2", "FINISHED"]
episodes = [span["attributes"] for span in spans]
assert [span["name"] for span in spans[:4]] == ["chat", "execute_tool look", "chat", "invoke_agent t1"]
""",
    "trackio": """
import trackio
from trackio.sqlite_storage import SQLiteStorage
[run] = trackio.Api().runs("agentgym")
rows = SQLiteStorage.get_logs("agentgym", run.name)
seen = [[row["train/step"], row["train/reward"]] for row in rows if "train/reward" in row]
seen = [seen, str(run.config["train"]["steps"]), "FINISHED"]
episodes = SQLiteStorage.get_traces("agentgym", run.name)
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
tables = [json.loads(file.read_text()) for file in folder.glob("wandb/**/train/episodes*.table.json")]
episodes = [table["data"] for table in tables]
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
    read = head + READ[name] + "\nprint(json.dumps(episodes, ensure_ascii=False))\nprint(json.dumps(seen))"
    episodes = run(read).splitlines()[-2]
    assert all(episodes.count(part) >= 2 for part in ("t1", "What is here?", "I look.", "a lamp", "\U0001f600"))
    assert json.loads(run(read).splitlines()[-1]) == [[[1, 0.25], [2, 0.5]], "2", "FINISHED"]
    if name == "mlflow":  # which knows how a run ended, and takes a parameter once
        run(FAIL)
        assert json.loads(run(read).splitlines()[-1])[1:] == ["2", "FAILED"]


def test_a_long_result_is_not_sent_whole():
    last = Turn(0, Message("assistant", ""), (Call("done"),), [Result("Handed in: " + "x" * 10**6, final=True)])
    [row] = _rows(1, [Trajectory("train-000000/t1#0", Task("t1", "e", "What?"), turns=[last])])
    assert len(row["conversation"]) < 21_000
    assert row["conversation"].endswith("x\n[980011 more characters]")


def test_spans_go_to_the_collector_that_the_environment_names(tmp_path):
    if not (python := os.environ.get("AGENTGYM_TRACKERS_PYTHON")):
        pytest.skip("AGENTGYM_TRACKERS_PYTHON names no interpreter that has OpenTelemetry")
    received = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        named = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
        program = SEND.replace("OFFERED", OFFERED)
        command = [python, "-c", program, "opentelemetry", str(tmp_path), json.dumps(ROWS)]
        environment = {**os.environ, **named, "PYTHONPATH": str(ROOT), "OTEL_EXPORTER_OTLP_COMPRESSION": "none"}
        subprocess.run(command, env=environment, check=True, timeout=120)
        server.shutdown()
    assert {path for path, _ in received} == {"/v1/traces"}
    assert sum(body.count(b"invoke_agent t1") for _, body in received) == 2
    assert not (tmp_path / "spans.jsonl").exists()


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
