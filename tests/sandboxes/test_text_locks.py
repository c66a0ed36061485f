"""Locks: wheels that are set by hand, what the prompt notes, and locks that cannot be built."""

from __future__ import annotations

import pytest

from agentgym import Call, EpisodeManager, Message, Outlook, RolloutConfig, ScriptedPolicy, Task, load_task_set
from agentgym.errors import TaskError
from agentgym.messages import ResultStatus
from agentgym.methods.stop_rules import Hopeless, OutOfReach
from agentgym.registry import load
from agentgym.sandboxes.text.locks import HOUSE, WHEELS

TREES_AND_BIRDS = {"wheels": ["tree", "bird", "gem"], "words": ["oak", "owl", "ruby"]}


def task_of(**parameters):
    return Task("t", "agentgym/text-locks-v1", "?", parameters=TREES_AND_BIRDS | parameters)


async def dialled(*words):
    """Sets the wheels in order. Returns: the environment, what the calls answered, and the potential before each."""
    environment = load("environments", "agentgym/text-locks-v1")()
    await environment.reset(task_of(), seed=0)
    results, potentials = [], [await environment.potential()]
    for word in words:
        results.append((await environment.call(Call("dial", {"word": word}))).content)
        potentials.append(await environment.potential())
    return environment, results, potentials


async def test_all_words_open_the_lock_and_no_result_tells_whether_one_was_right():
    environment, right, potentials = await dialled("oak", "owl", "ruby")
    assert potentials == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert environment.ended
    assert environment.verdict() == {"success": 1.0, "progress": 1.0}
    environment, wrong, potentials = await dialled("elm", "owl", "jade")
    assert potentials == pytest.approx([0, 0, 1 / 3, 1 / 3])
    assert environment.ended
    assert environment.verdict() == pytest.approx({"success": 0.0, "progress": 1 / 3})
    assert right == wrong == ["at bird", "at gem", "end"]


async def test_a_word_of_another_wheel_is_an_error_that_shows_the_wheel_and_changes_nothing():
    environment, _, _ = await dialled("oak")
    before = await environment.state_key()
    result = await environment.call(Call("dial", {"word": "oak"}))
    assert (result.status, result.content) == (
        ResultStatus.TOOL_ERROR,
        "its words are owl hen jay emu auk daw kea wren\nat bird",
    )
    assert await environment.state_key() == before


async def test_stop_rules_know_a_wrong_word_and_the_turns_that_are_left():
    environment, _, _ = await dialled("oak")
    assert await environment.outlook() == Outlook(None, 2)
    environment, _, _ = await dialled("elm", "owl")
    assert await environment.outlook() == Outlook("a wheel was set to a wrong word", 1)


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"wheels": ["tree"]}, "Give two or more different ones"),
        ({"wheels": ["tree", "bird", "tree"]}, "Give two or more different ones"),
        ({"wheels": ["tree", "bird", "boat"]}, "Give two or more different ones"),
        ({"words": ["oak", "owl"]}, "Give one word of each wheel"),
        ({"words": ["oak", "owl", "oak"]}, "Give one word of each wheel"),
    ],
)
async def test_locks_that_cannot_be_built_are_refused(parameters, complaint):
    with pytest.raises(TaskError, match=complaint):
        await load("environments", "agentgym/text-locks-v1")().reset(task_of(**parameters), seed=0)


def test_no_word_is_on_two_wheels():
    words = [word for wheel in WHEELS.values() for word in wheel]
    assert len(set(words)) == len(words) == 64


async def test_the_players_know_what_they_should():
    """The oracle opens every lock, also after an error; the other player where all words are noted."""
    task_set = load_task_set("text/locks-v1")
    config = RolloutConfig(stop_if=(Hopeless(), OutOfReach()))

    async def successes(player, tasks):
        manager = EpisodeManager(lambda task: ScriptedPolicy(player(task)), config)
        return [episode.success for episode in await manager.collect(tasks)]

    tasks = [*task_set["validation"], *task_set["held_out"]][::3]
    noted = [task for task in tasks if all(f'dial "{word}"' in task.prompt for word in words_of(task))]
    others = [task for task in tasks if task not in noted]
    assert set(await successes(task_set.oracle, tasks)) == {1.0}
    assert set(await successes(task_set.imperfect_oracle, noted)) == {1.0}
    assert sum(await successes(task_set.imperfect_oracle, others)) / len(others) < 0.05
    task = task_of()
    script = load("environments", task.environment).oracle(task)
    messages = [Message("user", "Open the lock.\nat tree"), Message("assistant", "hm")]
    assert script([*messages, Message("tool", "its words are owl\nat bird")]).calls[0].arguments == {"word": "owl"}


def words_of(task):
    return task.parameters["words"]


def test_locks_of_the_house_have_hints_and_those_of_their_own_have_notes():
    task_set = load_task_set("text/locks-v1")
    counts = {"train": (400, 1600), "validation": (40, 40), "held_out": (60, 60)}
    for split, (house, own) in counts.items():
        for tag, count in (("house_4", house), ("own_6", own)):
            assert sum(tag in task.tags for task in task_set[split]) == count
        for task in task_set[split]:
            if "house" in task.tags:
                assert words_of(task) == [HOUSE[wheel] for wheel in task.parameters["wheels"]]
                assert task.hints == tuple(f'dial "{word}"' for word in words_of(task))
                assert "dial" not in task.prompt
            else:
                assert task.hints == ()
    reserved = {len(words_of(task)) for task in task_set["held_out"] if "unseen_sizes" in task.tags}
    assert reserved == {7, 8}
    noted = [sum(f'dial "{w}"' in t.prompt for w in words_of(t)) for t in task_set["train"] if "own_4" in t.tags]
    assert sum(count == 4 for count in noted) / len(noted) == pytest.approx(0.6, abs=0.05)
    assert {*noted} == {0, 1, 2, 3, 4}
