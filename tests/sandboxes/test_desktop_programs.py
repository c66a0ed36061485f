"""A desktop with the task's own programs and size, its accessibility tree, and checkpoints that repeat the actions."""

from __future__ import annotations

import base64
import io
import json
import subprocess

import pytest
from PIL import Image

from agentgym import Task
from agentgym.errors import SandboxDied, SandboxUnavailable, TaskError
from agentgym.messages import Call
from agentgym.registry import load, make
from agentgym.sandboxes.desktop.own_programs import READS_TREES, TREE_PACKAGES

NAME = "agentgym/desktop-v2"
UNAVAILABLE = load("environments", NAME).unavailable_reason()
NO_TREES = subprocess.run(["sh", "-c", READS_TREES], capture_output=True, check=False).returncode != 0
SHELL = {"command": ["xterm", "-T", "Console", "-e", "bash", "--norc"], "package": "xterm", "window": "^Console"}
EDITOR = {"command": ["mousepad", "--disable-server"], "package": "mousepad", "window": "Mousepad", "opens": True}

needs_display = pytest.mark.skipif(bool(UNAVAILABLE), reason=UNAVAILABLE)


@pytest.fixture
async def desktop():
    """Makes environments with constructor arguments; closes them."""
    created = []

    def create(**arguments):
        created.append(make(NAME, **arguments))
        return created[-1]

    yield create
    for environment in created:
        await environment.close()


def task_of(**parameters):
    return Task("t", NAME, "Do it.", parameters=parameters)


async def act(environment, name, **arguments):
    result = await environment.call(Call(name, arguments))
    assert result.ok, result.content
    return result.content


@pytest.mark.needs_namespaces
@needs_display
async def test_a_task_brings_its_programs_and_size_and_moves_the_pointer(desktop):
    environment = desktop()
    opening = await environment.reset(task_of(programs={"console": SHELL}, size=[640, 400]), seed=0)
    assert "640 x 400 pixels. Programs: console." in opening[0].text
    windows, picture = await act(environment, "launch", program="console")
    assert "Console [XTerm]" in windows.text
    assert Image.open(io.BytesIO(base64.b64decode(picture.data))).size == (640, 400)
    await act(environment, "move", x=300, y=200)
    await act(environment, "type", text="xdotool getmouselocation >> places\n")
    await act(environment, "drag", x=220, y=120, to_x=77, to_y=88, path=[[140, 120], [90, 100]])
    await act(environment, "type", text="xdotool getmouselocation >> places\n")
    for wrong in (
        Call("move", {"x": 640, "y": 3}),
        Call("drag", {"x": 1, "y": 1, "to_x": 2, "to_y": 2, "path": [[0, -1]]}),
    ):
        refused = await environment.call(wrong)
        assert "is outside of the screen of 640 x 400 pixels" in refused.content
    refused = await environment.call(Call("launch", {"program": "editor"}))
    assert "There is no 'editor' here. Programs: console." in refused.content
    refused = await environment.call(Call("launch", {"program": "console", "file": "places"}))
    assert "to a program that opens files: none" in refused.content
    end = json.loads((await act(environment, "done")).partition("\n")[2])
    while len(end["files"]["places"].splitlines()) < 2:  # the shell may be slower than the screen
        end["files"] = await environment._home_files()
    assert [line.split()[:2] for line in end["files"]["places"].splitlines()] == [["x:300", "y:200"], ["x:77", "y:88"]]


@pytest.mark.needs_namespaces
@needs_display
@pytest.mark.skipif(NO_TREES, reason="apt-get install " + TREE_PACKAGES)
async def test_the_tree_tells_what_programs_show_and_a_checkpoint_restores_it(desktop):
    task = task_of(programs={"editor": EDITOR}, files={"a.txt": "hello\n"})
    environment = desktop(observe=("tree",))
    await environment.reset(task, seed=0)
    _, tree = await act(environment, "launch", program="editor", file="a.txt")
    assert 'menu "File" at ' in tree.text
    assert 'says "hello\\n" focused at ' in tree.text
    await act(environment, "type", text="Oh, ")
    checkpoint = await environment.checkpoint()
    await act(environment, "type", text="no, ")
    twin = desktop(observe=("tree",), max_chars=200)
    await twin.restore(task, checkpoint, seed=0)
    _, tree = await act(twin, "type", text="my ")
    assert tree.text.endswith(" more elements]")
    assert len(tree.text) < 300
    await act(twin, "press", keys="ctrl+s")
    assert '"a.txt": "Oh, my hello\\n"' in await act(twin, "done")


@pytest.mark.needs_namespaces
@needs_display
async def test_actions_that_lead_elsewhere_restore_nothing(desktop, monkeypatch):
    monkeypatch.setattr("agentgym.sandboxes.desktop.own_programs.LATE_S", 0.0)
    environment = desktop(observe=())
    task = task_of(files={"a.txt": "hello\n"})
    await environment.reset(task, seed=0)
    checkpoint = await environment.checkpoint()
    with pytest.raises(SandboxDied, match="the same 0 actions led to other files, windows or pixels"):
        await environment.restore(task_of(files={"a.txt": "bye\n"}), checkpoint, seed=0)
    await environment.restore(task, checkpoint, seed=0)


@pytest.mark.needs_namespaces
@needs_display
async def test_a_program_that_is_not_installed_is_named_before_the_episode_with_its_package(desktop):
    sheet = {"command": ["no-such-program"], "package": "no-such-package"}
    with pytest.raises(SandboxUnavailable, match=r"'sheet' needs no-such-program, .*: apt-get install no-such-package"):
        await desktop().reset(task_of(programs={"console": SHELL, "sheet": sheet}), seed=0)


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"programs": {}}, "must map names of programs to objects"),
        (
            {"programs": {"a": {"command": "xterm", "package": "xterm"}}},
            r"\['a'\]\['command'\] must be a list of texts, not 'xterm'",
        ),
        ({"programs": {"a": {"command": ["xterm"]}}}, r"\['package'\] is None. Give the Debian package .* xterm"),
        ({"programs": {"a": {**SHELL, "window": "("}}}, r"\['window'\] is '\(', which is not a regular expression"),
        (
            {"programs": {"a": {**SHELL, "titel": "x"}}},
            r"\['a'\] has unknown fields \['titel'\]. A program has command",
        ),
        ({"size": [10, 10]}, r"parameters\['size'\] must be width and height from 200 to 4096, not \[10, 10\]"),
        ({"size": "800x600"}, r"parameters\['size'\] must be .* not '800x600'"),
    ],
)
async def test_wrong_parameters_are_named(desktop, parameters, complaint):
    with pytest.raises(TaskError, match=complaint):
        await desktop().reset(task_of(**parameters), seed=0)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"no view 'text'. Its views are: screenshot, tree"):
        make(NAME, observe=("text",))
    with pytest.raises(ValueError, match="max_chars = 5 is not valid"):
        make(NAME, max_chars=5)
