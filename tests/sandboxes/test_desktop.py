"""A desktop with real programs: what is typed and clicked reaches the disk, and whoever kills it is judged by that."""

from __future__ import annotations

import base64
import io
import struct

import pytest
from by_day import some_by_day
from PIL import Image

from agentgym import EpisodeManager, RolloutConfig, ScriptedPolicy, Task, Trajectory, Turn
from agentgym.errors import JudgeError, TaskError
from agentgym.messages import Call, Message, Result, StopReason
from agentgym.registry import load, load_reward, load_task_set, make
from agentgym.sandboxes.desktop.guest.screen import png, read_screen
from agentgym.sandboxes.desktop.judge import TASK_OVER

UNAVAILABLE = load("environments", "agentgym/desktop-v1").unavailable_reason()
KILLED = "kill -9 $(pgrep -f guest.hub) $(pgrep Xvfb)\n"


def call(name, **arguments):
    return Message("assistant", "", (Call(name, arguments),))


async def play(tasks, script):
    manager = EpisodeManager(lambda task: ScriptedPolicy(script(task)), RolloutConfig(concurrency=2))
    return await manager.collect(tasks)


@pytest.mark.slow
@pytest.mark.parametrize("player", ["oracle", "imperfect_oracle"])
@pytest.mark.needs_namespaces
@pytest.mark.skipif(bool(UNAVAILABLE), reason=UNAVAILABLE)
async def test_each_kind_of_job_is_solved_by_the_oracle_and_not_by_the_imperfect_oracle(player):
    task_set = load_task_set("gui/desktop-v1")
    tasks = [*task_set["validation"][:8], *task_set["held_out"][40:42]]
    assert len({task.tags[1] for task in tasks}) == 10
    chosen = some_by_day(tasks, 5 if player == "oracle" else 3)
    trajectories = await play(chosen, getattr(task_set, player))
    assert [t.success for t in trajectories] == [float(player == "oracle")] * len(chosen)


@pytest.mark.needs_namespaces
@pytest.mark.skipif(bool(UNAVAILABLE), reason=UNAVAILABLE)
async def test_what_is_typed_is_seen_and_reaches_the_disk():
    """Through the real editor, with a look at real pixels."""
    environment = make("agentgym/desktop-v1")
    task = Task("t", "agentgym/desktop-v1", "Write.", parameters={"files": {"docs/a.txt": "one\n"}})
    await environment.reset(task, seed=0)
    try:
        empty = await environment.call(Call("look"))
        opened = await environment.call(Call("launch", {"program": "editor", "file": "docs/a.txt"}))
        screens = [Image.open(io.BytesIO(base64.b64decode(r.content[1].data))) for r in (empty, opened)]
        assert [screen.size for screen in screens] == [(800, 600)] * 2
        drawn = [800 * 600 - {colour: n for n, colour in s.getcolors(2**20)}.get((0, 0, 0), 0) for s in screens]
        assert drawn[0] < 500 < 250_000 < drawn[1]  # a mouse pointer; a window of 640 x 480
        assert "a.txt - Mousepad [Mousepad]" in opened.content[0].text
        for act in (
            Call("press", {"keys": "ctrl+End"}),
            Call("type", {"text": "two [x]\n3"}),
            Call("press", {"keys": "ctrl+s"}),
        ):
            assert (await environment.call(act)).ok
        refused = await environment.call(Call("press", {"keys": "ctrl+s; rm -rf"}))
        assert "is no key" in refused.content
        outside = await environment.call(Call("click", {"x": 800, "y": 1}))
        assert not outside.ok
        done = await environment.call(Call("done"))
        assert done.final
        assert '"docs/a.txt": "one\\ntwo [x]\\n3"' in done.content
    finally:
        await environment.close()


@pytest.mark.needs_namespaces
@pytest.mark.skipif(bool(UNAVAILABLE), reason=UNAVAILABLE)
async def test_an_agent_that_kills_the_desktop_is_judged_by_its_files_and_not_retried():
    task = Task("t", "agentgym/desktop-v1", "Do.", parameters={"images": False}, truth={"files": {"a.txt": "1\n"}})
    script = [
        call("launch", program="terminal"),
        call("type", text="echo 1 > a.txt\n"),
        call("type", text=KILLED),
        call("look"),
        call("done"),
    ]
    (trajectory,) = await play([task], lambda _: script)
    assert trajectory.stop_reason is StopReason.ANSWERED
    assert not trajectory.provenance.retries
    assert "has ended" in trajectory.turns[3].results[0].content
    assert trajectory.outcome == {"success": 1.0, "checks_passed": 1.0}


def ended(state, truth, answer="", parameters=None):
    """An episode that left its sandbox in a state."""
    call = Call("done", {"answer": answer})
    turn = Turn(0, Message("assistant", "", (call,)), (call,), (Result(TASK_OVER + state, name="done", final=True),))
    task = Task("t", "e", parameters=parameters or {}, truth=truth)
    return Trajectory("r/t#0", task, turns=[turn], stop_reason=StopReason.ANSWERED)


@pytest.mark.parametrize(
    ("state", "truth", "success"),
    [
        ('{"files": {"a": "x  \\n\\n", "b": "given"}, "windows": []}', {"files": {"a": "x\n"}}, 1),
        ('{"files": {"a": "x\\n"}, "windows": []}', {"files": {"a": "x\n"}}, 0),  # b is gone
        ('{"files": {"a": "x\\n", "b": "given", "c": ""}, "windows": []}', {"files": {"a": "x\n"}}, 0),  # c is new
        ('{"files": {"a": "x\\n", "c": ""}, "windows": []}', {"files": {"a": "x\n"}, "others": False}, 1),
        ('{"files": {"a": null, "b": "given"}, "windows": []}', {"files": {"a": "x\n"}}, 0),
        ('{"files": {}, "windows": []}', {"files": {"b": None}}, 1),
        ('{"files": {}, "windows": [["Mousepad", "~/a - Mousepad"]]}', {"windows": [["mousepad", "/a -"]]}, 1),
        ('{"files": {}, "windows": [["XTerm", "~/a - Mousepad"]]}', {"windows": [["mousepad", "/a -"]]}, 0),
        ('{"files": {"b": "given"}, "windows": []}', {"answer": "42"}, 1),
        ('{"files": {"b": "given"}, "windows": []}', {"answer": "42", "files": {}}, 1),
        ('{"files": {}, "windows": []}', {"answer": "42", "files": {}}, 0),
        ('{"files": {"b": "given"}, "windows": []}', {"answer": "43"}, 0),
    ],
)
def test_the_state_is_judged_whole(state, truth, success):
    episode = ended(state, truth, " 42 ", {"files": {"b": "given"}})
    assert load_reward("desktop").outcome(episode)["success"] == success


@pytest.mark.parametrize(
    "state",
    ['{"files', "[" * 100_000, "3", '{"files": {"a": {"base64": "?"}}}', '{"windows": [3]}', '{"files": {"a": 1}}'],
)
def test_a_state_that_cannot_be_read_is_a_failure(state):
    assert load_reward("desktop").outcome(ended(state, {"answer": "", "files": {"a": "x"}}))["success"] == 0.0


def test_a_truth_that_asks_for_nothing_is_refused():
    with pytest.raises(JudgeError, match="the truth has no checks"):
        load_reward("desktop").outcome(ended("{}", {}))


async def test_a_file_outside_of_the_home_folder_is_a_task_error():
    for parameters in ({"files": {"../x": ""}}, {"files": {"/etc/x": ""}}, {"files": ["a"]}, {"folders": ["a/../.."]}):
        with pytest.raises(TaskError):
            await make("agentgym/desktop-v1").reset(Task("t", "e", "?", parameters=parameters), seed=0)


def test_the_frame_buffer_becomes_a_png_of_the_same_pixels(tmp_path):
    """Two by two pixels: red, green, blue, white, as little-endian 0x00RRGGBB."""
    words = [104, 7, 2, 24, 2, 2, 0, 0, 32, 0, 32, 32, 8, 4, 0xFF0000, 0xFF00, 0xFF, 8, 0, 1, 2, 2, 0, 0, 0]
    head = struct.pack(">25I", *words) + b"\0" * 4 + b"\0" * 12
    body = struct.pack("<4I", 0xFF0000, 0x00FF00, 0x0000FF, 0xFFFFFF)
    (tmp_path / "screen").write_bytes(head + body)
    picture = Image.open(io.BytesIO(png(*read_screen(tmp_path / "screen"))))
    assert [picture.getpixel(at) for at in ((0, 0), (1, 0), (0, 1), (1, 1))] == [
        (255, 0, 0),
        (0, 255, 0),
        (0, 0, 255),
        (255, 255, 255),
    ]
    for broken in (b"", head[:50], head, struct.pack(">25I", *[104, 6, *words[2:]]) + body * 4):
        (tmp_path / "screen").write_bytes(broken)
        with pytest.raises(ValueError, match="frame buffer"):
            read_screen(tmp_path / "screen")
