"""The text adventure: commands, locks and keys, and that no wandering leads into a dead end."""

from __future__ import annotations

import random

import pytest

from agentgym import Call, Task, ToolError
from agentgym.errors import TaskError
from agentgym.registry import load
from agentgym.sandboxes.text.adventure import _fresh


async def opened(name, parameters, seed=0):
    environment = load("environments", f"agentgym/text-{name}-v1")()
    await environment.reset(Task("t", environment.id, "?", parameters=parameters), seed=seed)
    return environment


async def say(environment, tool, **arguments):
    return (await environment.call(Call(tool, arguments))).content


def test_from_wherever_an_agent_wanders_the_quest_can_still_be_done():
    """Random commands, most of them sensible: no state is a dead end, and every key can be had before its lock."""
    environment = load("environments", "agentgym/text-adventure-v1")
    for seed in range(20):
        rng = random.Random(seed)
        task = environment.generate(seed, 5, locks=4, rooms=6)
        house = _fresh(task.parameters["house"], task.parameters["state"])
        for _ in range(40):
            things, holders = list(house.state["places"]), list(house.holders)
            command = rng.choice(
                [f"go {way}" for way in house.exits[house.state["at"]]]
                + [f"open {rng.choice(holders)}", f"take {rng.choice(things)}", f"drop {rng.choice(things)}"]
                + [f"put {rng.choice(things)} in {rng.choice(holders)}"]
            )
            try:
                house.do(command)
            except ToolError:
                continue
        for command in house.solution(task.parameters["quest"]):
            house.do(command)
        assert all(house.state["places"][thing] == holder for thing, holder in task.parameters["quest"])


def test_locks_block_the_way_and_keys_are_needed_in_turn():
    environment = load("environments", "agentgym/text-adventure-v1")
    solutions = [environment.generate(seed, 0, rooms=5, locks=3, others=4).truth["solution"] for seed in range(20)]
    unlocked = [sum(command.startswith("unlock") for command in commands) for commands in solutions]
    assert max(unlocked) == 3
    assert sum(count >= 1 for count in unlocked) >= 18


@pytest.mark.parametrize(
    ("command", "reply"),
    [
        ("look", "You are in the hall. You see: chest (locked), table (cup), iron key. Ways: north to the attic."),
        ("Take the CUP from the table!", "You take the cup."),
        ("open chest", "The chest is locked. Write: unlock chest with ..."),
        ("unlock chest with iron key", "You carry no 'iron key'."),
        ("take key", "There is no 'key' to be taken here."),
        (
            "take iron key; unlock chest with iron key; open chest",
            "You take the iron key. The chest is unlocked. In the chest: nothing.",
        ),
        ("go south", "No way leads south from the hall."),
        ("take cup; go up; drop cup", "You take the cup. I do not understand ' go up'. Commands are:"),
        ("", "I do not understand ''."),
        ("inventory", "You carry: nothing."),
        ("put cup in chest", "You do not carry 'cup'."),
        ("x" * 100_000, "I do not understand 'xxxx"),
    ],
)
async def test_commands_are_understood_or_answered(command, reply):
    house = {
        "exits": {"hall": {"north": "attic"}, "attic": {"south": "hall"}},
        "locks": {"chest": "iron key"},
        "holders": {"chest": {"room": "hall", "opens": True}, "table": {"room": "hall", "opens": False}},
    }
    state = {"at": "hall", "places": {"cup": "table", "iron key": "hall"}}
    environment = await opened("adventure", {"house": house, "state": state, "quest": [["cup", "chest"]]})
    assert (await say(environment, "act", command=command)).startswith(reply)


async def test_a_key_behind_its_own_lock_is_refused_when_the_house_is_built():
    house = {
        "exits": {"hall": {}},
        "locks": {"chest": "iron key"},
        "holders": {"chest": {"room": "hall", "opens": True}},
    }
    state = {"at": "hall", "places": {"cup": "hall", "iron key": "chest"}}
    with pytest.raises(TaskError, match="t: the house cannot be used: RecursionError"):
        await opened("adventure", {"house": house, "state": state, "quest": [["cup", "chest"]]})
