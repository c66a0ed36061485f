"""Doors: rooms walked by hand, the two ways in which keys count, and rooms that cannot be built."""

from __future__ import annotations

import pytest

from agentgym import Call, Message, Task
from agentgym.errors import TaskError
from agentgym.messages import ResultStatus
from agentgym.registry import load
from agentgym.sandboxes.text.doors import is_reserved, read_room

ROOMS = ["at blue: red blue gray", "at gold: gold tan lime", "at red: pink teal red"]
HALLS = ["at blue: red blue gray", "at any: gold tan lime", "at any: pink teal red"]


def task_of(rooms, counts):
    parameters = {"rooms": rooms, "horizon": len(rooms), "counts": counts}
    return Task("t", "agentgym/text-doors-v1", "?", parameters=parameters)


async def walk(rooms, counts, keys):
    """Takes the keys in order. Returns: the environment, what the calls answered, and the potential before each."""
    environment = load("environments", "agentgym/text-doors-v1")()
    await environment.reset(task_of(rooms, counts), seed=0)
    results, potentials = [], [await environment.potential()]
    for key in keys:
        results.append((await environment.call(Call("take", {"key": key}))).content)
        potentials.append(await environment.potential())
    return environment, results, potentials


async def test_where_every_key_counts_the_potential_is_the_share_of_right_keys():
    environment, _, potentials = await walk(ROOMS, "every", ["blue", "tan", "red"])
    assert potentials == pytest.approx([0, 1 / 3, 1 / 3, 2 / 3])
    assert environment.ended
    assert environment.verdict() == pytest.approx({"success": 0.0, "progress": 2 / 3})


async def test_where_the_first_key_counts_the_potential_rises_after_it_and_any_later_key_will_do():
    environment, _, potentials = await walk(HALLS, "first", ["blue", "tan", "pink"])
    assert potentials == [0.0, 0.5, 0.75, 1.0]
    assert environment.verdict() == {"success": 1.0, "progress": 1.0}
    environment, _, potentials = await walk(HALLS, "first", ["gray", "gold", "red"])
    assert potentials == [0.0, 0.0, 0.0, 0.0]
    assert environment.verdict() == {"success": 0.0, "progress": 0.0}


@pytest.mark.parametrize(("rooms", "counts"), [(ROOMS, "every"), (HALLS, "first")])
async def test_a_result_does_not_tell_whether_the_key_was_right(rooms, counts):
    _, right, _ = await walk(rooms, counts, ["blue", "gold", "red"])
    _, wrong, _ = await walk(rooms, counts, ["red", "lime", "teal"])
    assert right == wrong == [rooms[1], rooms[2], "end"]


async def test_a_key_that_is_not_there_is_an_error_that_shows_the_room_again_and_changes_nothing():
    environment, _, _ = await walk(ROOMS, "every", ["blue"])
    before = await environment.state_key()
    result = await environment.call(Call("take", {"key": "plum"}))
    assert (result.status, result.content) == (ResultStatus.TOOL_ERROR, f"no such key\n{ROOMS[1]}")
    assert await environment.state_key() == before


async def test_states_are_equal_after_as_many_right_keys_and_differ_otherwise():
    keys = [(await (await walk(ROOMS, "every", taken))[0].state_key()) for taken in (["blue", "tan"], ["gray", "gold"])]
    assert keys[0] == keys[1]
    assert keys[0] != await (await walk(ROOMS, "every", ["blue", "gold"]))[0].state_key()


@pytest.mark.parametrize(
    ("rooms", "counts", "complaint"),
    [
        (ROOMS[:1], "every", "there are 1 rooms"),
        (HALLS, "every", "room 1 is 'at any: gold tan lime'"),
        (ROOMS, "first", "room 1 is 'at gold: gold tan lime'"),
        (["at red: red red blue", ROOMS[1]], "every", "room 0 is"),
        (["at plum: red gold blue", ROOMS[1]], "every", "room 0 is"),
        (ROOMS, "none", "is 'none'\\. Choose 'every' or 'first'"),
    ],
)
async def test_rooms_that_cannot_be_played_are_refused(rooms, counts, complaint):
    with pytest.raises(TaskError, match=complaint):
        await load("environments", "agentgym/text-doors-v1")().reset(task_of(rooms, counts), seed=0)


def test_reserved_keys_are_shown_together_only_where_they_are_asked_for():
    doors = load("environments", "agentgym/text-doors-v1")
    for reserved in (False, True):
        tasks = [doors.generate(seed, horizon=8, reserved=int(reserved)) for seed in range(20)]
        kinds = {is_reserved(read_room(room)[1]) for task in tasks for room in task.parameters["rooms"]}
        assert kinds == {reserved}


async def test_the_oracle_goes_on_after_an_error():
    task = task_of(ROOMS, "every")
    script = load("environments", task.environment).oracle(task)
    messages = [Message("user", f"Every sign names the key to take.\n{ROOMS[0]}"), Message("assistant", "hm")]
    assert script([*messages, Message("tool", f"no such key\n{ROOMS[1]}")]).calls[0].arguments == {"key": "gold"}
