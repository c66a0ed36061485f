"""Problems of AgentBench's operating-system environment become task folders whose judge decides as published."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from agentgym.errors import TaskError
from agentgym.registry import load
from agentgym.sandbox import rootfs
from agentgym.sandboxes.code.terminal.build_steps import ImageConfig, Run
from agentgym.sandboxes.code.terminal.folder import TerminalFolder
from agentgym.tasks.importers.items import LeftOutWarning

COUNT = {
    "description": "How many files are in /data?",
    "create": {"local": "default", "init": [{"code": "mkdir /data\ntouch '/data/a b'"}, {"file": "init/more.sh"}]},
    "evaluation": {
        "check": [None, {"language": "python", "file": "check/equal.py"}],
        "example": {"code": "ls /data | wc -l"},
    },
    "labels": ["file"],
}
MATCH = {"description": "What is 6 times 7?", "evaluation": {"match": {"answer": "42", "strip": True}}}
STATE = {
    "description": "Make /tmp/x.",
    "evaluation": {"check": {"code": "test -e /tmp/x"}, "example": "touch /tmp/x"},
}
LEFT_OUT = {
    "dev-003": (STATE | {"start": "sleep 9 &"}, "a program of it runs in the background"),
    "dev-004": (STATE | {"create": {"local": "arch"}}, "its image is 'arch'"),
    "dev-005": (STATE | {"create": [None]}, "its `create` does not say how"),
    "dev-006": (STATE | {"create": {"init": {"language": "c++", "code": ""}}}, "scripts in c[+][+]"),
    "dev-007": (STATE | {"evaluation": {"check": [None]}}, "lacks the example"),
}


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A folder as in the repository, in a cache with an image for ubuntu."""
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache" / "images" / "ubuntu-24.04" / "bin").mkdir(parents=True)
    assert "ubuntu-24.04" in rootfs.names()
    top = tmp_path / "os_interaction"
    for part, text in {
        "data/dev.json": json.dumps([COUNT, MATCH, STATE, *(problem for problem, _ in LEFT_OUT.values())]),
        "data/4/N2.json": json.dumps(MATCH),
        "scripts/dev/init/more.sh": "touch /data/c\n",
        "scripts/dev/check/equal.py": "from sys import argv\nexit(int(argv[1]) != int(argv[2]))\n",
    }.items():
        (top / part).parent.mkdir(parents=True, exist_ok=True)
        (top / part).write_text(text)
    return top


def test_problems_become_task_folders_and_what_does_not_is_named(published, tmp_path):
    with pytest.warns(LeftOutWarning) as warned:
        task_set = load("importers", "agentbench-os")(published, folders=tmp_path / "folders")
    assert warned[0].message.reasons.keys() == LEFT_OUT.keys()
    for name, (_, reason) in LEFT_OUT.items():
        assert reason.replace("[+]", "+") in warned[0].message.reasons[name]
    assert [task.id for task in task_set["held_out"]] == ["4-N2-000", "dev-000", "dev-001", "dev-002"]
    count = TerminalFolder.read(tmp_path / "folders" / "dev-000")
    assert "/answer.txt" in count.steps[0].instruction
    assert "/answer.txt" not in TerminalFolder.read(tmp_path / "folders" / "dev-002").steps[0].instruction
    runs = [step.argv for step in count.dockerfile.target.steps(ImageConfig())[0] if isinstance(step, Run)]
    assert runs[1:] == [("bash", "-c", "mkdir /data\ntouch '/data/a b'"), ("bash", "-c", "touch /data/c\n")]


def paid(folder, where, answer) -> int:
    """Return what the judge of a task folder pays for an answer, with its paths below another folder."""
    for part in ("tests", "logs/verifier", "data"):
        (where / part).mkdir(parents=True, exist_ok=True)
    (where / "data" / "one").touch()
    (where / "answer.txt").write_text(answer)
    for name in ("judge.json", "judge.py"):
        text = (folder / "tests" / name).read_text()
        for path in ("/tests", "/answer.txt", "/logs", "/data"):
            text = text.replace(path, f"{where}{path}")
        (where / "tests" / name).write_text(text)
    subprocess.run([sys.executable, where / "tests" / "judge.py"], check=True)
    return int((where / "logs/verifier/reward.txt").read_text())


@pytest.mark.parametrize(
    ("name", "answer", "reward"),
    [("dev-000", "1\n", 1), ("dev-000", "2", 0), ("dev-000", "", 0), ("dev-001", " 42 ", 1), ("dev-001", "4", 0)],
)
def test_the_judge_decides_as_published(published, tmp_path, name, answer, reward):
    with pytest.warns(LeftOutWarning):
        load("importers", "agentbench-os")(published, folders=tmp_path / "folders")
    assert paid(tmp_path / "folders" / name, tmp_path / "system", answer) == reward


def test_bad_input_is_named(published, tmp_path):
    importer = load("importers", "agentbench-os")
    with pytest.raises(TaskError, match=r"has no data/dev.json. Give the folder data/os_interaction"):
        importer(tmp_path / "cache", folders=tmp_path / "folders")
    with pytest.raises(TaskError, match=r"is not a new folder. Name one for the task folders"):
        importer(published, folders=published)
    with pytest.raises(TaskError, match=r"is not a new folder. Name one for the task folders"):
        importer(published)
    (published / "data" / "dev.json").write_text(json.dumps([COUNT | {"evaluation": {"check": {"file": "gone.sh"}}}]))
    with pytest.raises(TaskError, match=r"item 0: its script gone.sh cannot be read"):
        importer(published, folders=tmp_path / "folders")
    (published / "data" / "dev.json").write_text(json.dumps([{"evaluation": {}, "description": "x"}]))
    with pytest.raises(TaskError, match="has neither match nor check"):
        importer(published, folders=tmp_path / "more")
    (published / "data" / "dev.json").write_text("3")
    with pytest.raises(TaskError, match="every problem must be an object"):
        importer(published, folders=tmp_path / "more")
