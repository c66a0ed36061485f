"""Games of TextWorld: their walkthrough wins, and anything else does not."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import textworld

from agentgym import Budgets, Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, TaskError, make
from agentgym.registry import load
from agentgym.tasks.importers.items import LeftOutWarning


@pytest.fixture(scope="module")
def game(tmp_path_factory):
    """A game of two rooms and three steps, compiled by the package."""
    options = textworld.GameOptions()
    options.path = str(tmp_path_factory.mktemp("games") / "game.z8")
    options.nb_rooms, options.nb_objects, options.seeds = 2, 4, 7
    options.chaining.max_length = 3
    return textworld.make(options)[0]


async def test_the_walkthrough_wins_and_another_command_does_not(game):
    task_set = load("importers", "textworld")(game)
    [task] = task_set["held_out"]
    idle = [Message("assistant", "", (Call("act", {"command": "look"}),))]
    for script, turns, success in ((task_set.solution(task), 9, 1.0), (idle, 1, 0.0)):
        config = RolloutConfig(budgets=Budgets(max_turns=turns))
        [trajectory] = await EpisodeManager(ScriptedPolicy(script), config).collect([task])
        assert trajectory.success == success


async def test_a_saved_game_is_restored_and_no_file_of_the_host_is_written(game, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    [task] = load("importers", "textworld")(game)["held_out"]
    before = {path.name for path in Path(game).parent.iterdir()}
    environment = make(task.environment)
    await environment.reset(task, seed=0)
    for command in ("save", "look", "restore", "script"):
        assert (await environment.call(Call("act", {"command": command}))).ok
    await environment.close()
    assert {path.name for path in Path(game).parent.iterdir()} == before
    assert not list(tmp_path.iterdir())


async def test_a_checkpoint_continues_in_the_same_state(game):
    [task] = load("importers", "textworld")(game)["held_out"]
    first, second = make(task.environment), make(task.environment)
    await first.reset(task.public(), seed=0)
    await first.call(Call("act", {"command": task.truth["walkthrough"][0]}))
    await second.restore(task.public(), await first.checkpoint(), seed=0)
    assert await first.state_key() == await second.state_key()
    for command in task.truth["walkthrough"][1:]:
        await second.call(Call("act", {"command": command}))
    assert second.verdict()["success"] == 1.0
    refused = await second.call(Call("act", {"command": "look"}))
    assert not refused.ok
    for environment in (first, second):
        await environment.close()


@pytest.mark.parametrize("command", ["", "x" * 201, "n\x00", "näh"])
async def test_a_command_that_no_game_reads_is_refused(game, command):
    [task] = load("importers", "textworld")(game)["held_out"]
    environment = make(task.environment)
    await environment.reset(task.public(), seed=0)
    assert "plain characters" in (await environment.call(Call("act", {"command": command}))).content
    await environment.close()


def test_games_that_are_left_out_are_named(game, tmp_path):
    importer = load("importers", "textworld")
    with pytest.raises(TaskError, match="is no game"):
        importer(tmp_path)
    shutil.copy(game, tmp_path / "a.z8")
    with pytest.raises(TaskError, match=r"a.z8: the .json file with its walkthrough is not beside it"):
        importer(tmp_path)
    (tmp_path / "a.json").write_text(json.dumps({"metadata": {"walkthrough": ["look"]}}))
    (tmp_path / "b.ulx").touch()
    (tmp_path / "b.json").write_text("{}")
    with pytest.warns(LeftOutWarning) as warned:
        [task] = importer(tmp_path)["held_out"]
    assert (task.id, task.truth["walkthrough"]) == ("textworld/a.z8", ["look"])
    assert warned[0].message.reasons == {"b.ulx": "the .json file beside it has no walkthrough"}


async def test_a_file_that_is_no_game_is_named(game, tmp_path):
    [task] = load("importers", "textworld")(game)["held_out"]
    environment = make(task.environment)
    broken = replace(task.public(), parameters={"game": str(tmp_path / "gone.z8")})
    with pytest.raises(TaskError, match="cannot be played"):
        await environment.reset(broken, seed=0)
    await environment.close()
