"""`gui/office-v1` in the real programs, and what the readers of its files make of near misses and hostile files."""

from __future__ import annotations

import base64
import gzip
import io
import json
import shutil
import zipfile

import pytest
from by_day import some_by_day

from agentgym import EpisodeManager, RolloutConfig, ScriptedPolicy, Task, Trajectory, Turn
from agentgym.errors import JudgeError, TaskError
from agentgym.messages import Call, Message, Result, StopReason
from agentgym.registry import load, load_reward, load_task_set, make
from agentgym.sandboxes.desktop.documents import UNREADABLE, bytes_of, cells, content_of, holds, paragraphs, pixels
from agentgym.sandboxes.desktop.judge import TASK_OVER
from agentgym.tasks.office.files import encoded, flipped, gnumeric, letter, rotated, xlsx
from agentgym.tasks.office.task_set import PROGRAMS, VIEWER

NAME = "gui/office-v1"
MISSING = [p["package"] for p in (VIEWER | PROGRAMS).values() if shutil.which(p["command"][0]) is None]
UNAVAILABLE = load("environments", "agentgym/desktop-v2").unavailable_reason() or (
    f"apt-get install {' '.join(MISSING)}" if MISSING else ""
)
ROWS = [("item", "count"), ("desks", 12), ("lamps", 7)]
PICTURE = (2, 3, bytes(range(18)))


@pytest.fixture(scope="module")
def office():
    return load_task_set(NAME)


def one_of_each_kind(office):
    """A task of each of the 15 kinds, from validation and held-out."""
    return list({task.tags[1]: task for split in ("validation", "held_out") for task in office[split]}.values())


def ended(task, files):
    """An episode of the task that left these files."""
    call = Call("done", {})
    content = TASK_OVER + json.dumps({"files": files, "windows": []})
    turn = Turn(0, Message("assistant", "", (call,)), (call,), (Result(content, name="done", final=True),))
    return Trajectory("r/t#0", task, turns=[turn], stop_reason=StopReason.ANSWERED)


def success(task, files):
    return load_reward("desktop").outcome(ended(task, files))["success"]


@pytest.mark.slow
@pytest.mark.parametrize("player", ["oracle", "imperfect_oracle"])
@pytest.mark.needs_namespaces
@pytest.mark.skipif(bool(UNAVAILABLE), reason=UNAVAILABLE)
async def test_each_kind_of_job_is_solved_by_the_oracle_and_a_sample_not_by_the_imperfect_oracle(office, player):
    tasks = one_of_each_kind(office)
    assert len(tasks) == 15
    if player == "imperfect_oracle":  # its starts are the oracle's
        tasks = some_by_day([task for task in tasks if task.tags[1] in ("bold", "cell", "move", "quarter")], 2)
    script = getattr(office, player)
    manager = EpisodeManager(lambda task: ScriptedPolicy(script(task)), RolloutConfig(concurrency=4))
    trajectories = await manager.collect(some_by_day(tasks, 2))
    failed = [t.task.tags[1] for t in trajectories if t.success != float(player == "oracle")]
    assert failed == []


def test_silence_and_damage_pay_nothing_in_any_kind(office):
    for task in one_of_each_kind(office):
        files = task.parameters["files"]
        expected = task.truth["files"]
        assert success(task, files) == 0, "nothing was done"
        assert success(task, {}) == 0
        path = next(iter(expected))
        if isinstance(expected[path], dict) and "picture" in expected[path]:
            right = {**files, path: {"base64": expected[path]["picture"]}}
            other = next(name for name in files if name != path)
            assert success(task, right) == 1
            assert success(task, {**right, other: "damaged"}) == 0
            assert success(task, {**right, "copy.png": right[path]}) == 0
            assert success(task, {**files, "other.png": right[path]}) == 0, "saved under another name"


@pytest.mark.parametrize("make_sheet", [gnumeric, xlsx])
def test_a_sheet_is_right_only_with_every_cell_in_its_place(make_sheet):
    def judged(rows):
        return holds(
            bytes_of(make_sheet(rows)), {"cells": [["A1", "item"], ["B1", "count"], ["A2", "desks"], ["B2", 12]]}
        )

    assert judged(ROWS[:2])
    assert not judged([ROWS[0], ("desks", 13)])
    assert not judged([ROWS[0], ("Desks", 12)])
    assert not judged([ROWS[0], ("desks", "12")]), "a text that looks like a number"
    assert not judged([ROWS[0], ROWS[2], ROWS[1]])
    assert not judged(ROWS)


def test_formulas_styles_and_csv_are_read():
    sheet = gzip.decompress(bytes_of(gnumeric(ROWS))).replace(b'ValueType="40">7', b">=SUM(B2: B2)")
    assert cells(sheet)["B3"] == "=sum(b2:b2)"
    assert cells(b"a,2\n,x\n") == {"A1": "a", "B1": 2.0, "B2": "x"}
    styled = letter(["one", "two"]).replace("one", '<c props="font-weight:bold; font-style:normal">o</c>ne')
    assert paragraphs(styled.encode()) == [[["o", "bold"], ["ne", ""]], [["two", ""]]]


def test_flips_and_turns_are_inverse_to_each_other():
    assert pixels(bytes_of({"base64": encoded(PICTURE)})) == PICTURE
    assert flipped(flipped(PICTURE, horizontally=True), horizontally=True) == PICTURE
    assert rotated(rotated(PICTURE, clockwise=True), clockwise=False) == PICTURE
    assert rotated(PICTURE, clockwise=True)[2][:3] == bytes([12, 13, 14])  # the lower left comes to the upper left


def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"xl/worksheets/{name}.xml", data)
    return buffer.getvalue()


ENTITIES = b'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "bb">]><a>&b;</a>'
HOSTILE = [
    b"",
    b"PK\x03\x04 broken",
    ENTITIES,
    gzip.compress(bytes(2**23)),
    zipped(sheet1=bytes(2**23)),
    zipped(sheet1=ENTITIES),
    b"\x89PNG\r\n\x1a\n" + bytes(40),
    base64.b64decode(encoded(PICTURE))[:50],
    base64.b64decode(encoded((2**15, 1, bytes(3 * 2**15)))).replace(bytes([0, 0, 128, 0]), bytes([127, 255, 255, 255])),
]


@pytest.mark.parametrize("data", HOSTILE)
def test_a_broken_or_hostile_file_is_no_document(data):
    for kind in ({"cells": [["A1", 1]]}, {"paragraphs": [[["a", ""]]]}, {"picture": encoded(PICTURE)}):
        assert holds(data, kind) is False
    if data:
        with pytest.raises(UNREADABLE):
            pixels(data)


async def test_files_that_are_no_content_are_named():
    environment = make("agentgym/desktop-v2")
    for content, complaint in (
        (5, 'is not text or {"base64"'),
        ({"base64": "!"}, "is not text or"),
        ({"cells": {}}, "is not text or"),
        (content_of(b"\xff" * 70_000), "has 70000 bytes, but at most 65536"),
    ):
        with pytest.raises(TaskError, match=complaint):
            await environment.reset(Task("t", "e", "?", parameters={"files": {"a": content}}), seed=0)
    with pytest.raises(TaskError, match="is not text"):
        await make("agentgym/desktop-v1").reset(
            Task("t", "e", "?", parameters={"files": {"a": content_of(b"\xff")}}), seed=0
        )
    for truth in ({"sheet": 1}, {"picture": "AAAA"}, {}, {"cells": {}, "base64": ""}, {"cells": 5}):
        with pytest.raises(JudgeError, match="is not valid"):
            success(Task("t", "e", "?", truth={"files": {"a": truth}}), {"a": "x"})
