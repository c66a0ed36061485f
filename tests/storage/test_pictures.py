"""Images of a run are stored once, however often they are shown, and come back as they were."""

from __future__ import annotations

import base64
import sqlite3

import pytest

from agentgym import Environment, EpisodeManager, RolloutConfig, ScriptedPolicy, Task, TaskSet, tool
from agentgym.errors import LedgerError, TaskError
from agentgym.messages import Call, ImagePart, Message, TextPart
from agentgym.storage.ledger import Ledger
from agentgym.storage.reader import LedgerReader
from agentgym.tools.shown import render_output

SCREEN = ImagePart(base64.b64encode(bytes(range(256)) * 40).decode())
ODD = ImagePart(SCREEN.data[:50] + "\n" + SCREEN.data[50:], "image/jpeg")  # base64 as some write it: kept to the letter


class Screen(Environment):
    """Shows the same screen at every look."""

    async def reset(self, task, *, seed):
        return [Message("user", (TextPart("look"), SCREEN, ODD))]

    @tool
    def look(self) -> ImagePart:
        """Look."""
        return SCREEN


async def play(path):
    ledger = Ledger(path)
    looks = [Message("assistant", "", (Call("look"),))] * 4 + [Message("assistant", "done")]
    manager = EpisodeManager(ScriptedPolicy(looks), RolloutConfig(environment=Screen), ledger=ledger)
    task = Task("t", "acme/screen-v1", messages=(Message("user", (TextPart("look"), SCREEN)),))
    trajectories = await manager.collect([task], group_size=3)
    return ledger, trajectories


async def test_an_image_shown_many_times_is_stored_once(tmp_path):
    ledger, trajectories = await play(tmp_path / "ledger.sqlite")
    assert [ledger.load(t.id) for t in trajectories] == trajectories
    assert trajectories[0].turns[3].results[0].message().images == (SCREEN,)
    ledger.close()
    connection = sqlite3.connect(tmp_path / "ledger.sqlite")
    rows = connection.execute("SELECT digest, length(data) FROM image ORDER BY 2").fetchall()
    assert rows == [(SCREEN.digest, 256 * 40), (ODD.digest, len(ODD.data))]
    heads = [row[0] for row in connection.execute("SELECT head FROM turn UNION ALL SELECT head FROM episode")]
    connection.close()
    assert not any(SCREEN.data[:100] in head for head in heads)
    reader = LedgerReader(tmp_path / "ledger.sqlite")
    assert reader.load(trajectories[1].id) == trajectories[1]
    reader.close()


async def test_an_amended_episode_still_stores_its_images_once(tmp_path):
    ledger, trajectories = await play(tmp_path / "ledger.sqlite")
    trajectories[0].outcome["late"] = 1.0
    ledger.amend([trajectories[0]])
    assert ledger.load(trajectories[0].id) == trajectories[0]
    ledger.close()
    with sqlite3.connect(tmp_path / "ledger.sqlite") as connection:
        heads = [row[0] for row in connection.execute("SELECT head FROM episode")]
        assert connection.execute("SELECT count(*) FROM image").fetchone() == (2,)
    connection.close()
    assert not any(SCREEN.data[:100] in head for head in heads)


async def test_a_missing_image_is_told_by_its_digest(tmp_path):
    ledger, trajectories = await play(tmp_path / "ledger.sqlite")
    with sqlite3.connect(tmp_path / "ledger.sqlite") as connection:
        connection.execute("DELETE FROM image WHERE digest = ?", (SCREEN.digest,))
    connection.close()
    with pytest.raises(LedgerError, match=SCREEN.digest):
        ledger.load(trajectories[0].id)
    ledger.close()


def test_tasks_with_other_images_are_other_problems_and_keep_them_in_a_file(tmp_path):
    def task(name, image, split):
        return Task(name, "acme/screen-v1", messages=(Message("user", (TextPart("what is it?"), image)),), split=split)

    other = ImagePart(base64.b64encode(b"other").decode())
    tasks = TaskSet("pictures", {"train": [task("a", SCREEN, "train")], "held_out": [task("b", other, "held_out")]})
    tasks.to_jsonl(tmp_path / "tasks.jsonl")
    back = TaskSet.from_jsonl(tmp_path / "tasks.jsonl", name="pictures")
    assert back["train"][0] == tasks["train"][0]
    assert back.fingerprint() == tasks.fingerprint()
    row = tasks["train"][0].to_json()
    row["messages"][0]["content"][1] = {"type": "image_url", "url": "http://elsewhere"}
    with pytest.raises(TaskError, match=r"messages\[0\] has the part"):
        Task.from_json(row)


def test_text_beside_an_image_is_bounded_like_any_other():
    content, cut = render_output([TextPart("x" * 30), SCREEN, TextPart("y" * 30)], 40)
    assert cut
    assert content[0] == TextPart("x" * 30)
    assert content[1] is SCREEN
    assert content[2].text.startswith("y" * 10 + "\n[output cut")
    assert render_output([TextPart("x"), SCREEN], 40) == ((TextPart("x"), SCREEN), False)
