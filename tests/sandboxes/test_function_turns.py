"""`agentgym/function-turns-v1`: turns, functions that come later, and functions that break their process."""

from __future__ import annotations

import json

import pytest

import agentgym
from agentgym import Call, Message, Task
from agentgym.errors import TaskError

pytestmark = pytest.mark.needs_namespaces
SOURCE = """
import absent, os, time

class Oven:
    def __init__(self):
        self.heat, self._secret = 0, 0
        print("not a reply")

    def _load_scenario(self, scenario, long_context=False):
        self.heat = scenario["heat"]

    def set_heat(self, heat):
        self._secret += 1
        self.heat = heat
        return {"heat": heat, "raw": {1, }} if heat == 7 else {"heat": heat}

    def clean(self):
        return absent.clean()

    def explode(self, seconds):
        time.sleep(seconds)
        os._exit(1)
"""
TOOLS = {
    "set_heat": {"heat": {"type": "integer"}},
    "clean": {},
    "explode": {"seconds": {"type": "number"}},
}


def tool(name):
    return {"name": name, "description": "x", "parameters": {"type": "object", "properties": TOOLS[name]}}


@pytest.fixture
async def opened(tmp_path):
    (tmp_path / "oven.py").write_text(SOURCE)
    environments = []

    async def opened(**changes):
        parameters = {
            "source": str(tmp_path),
            "package": "kitchen.parts",
            "classes": {"Oven": "kitchen.parts.oven"},
            "config": {"Oven": {"heat": 20}},
            "tools": [tool("set_heat"), tool("explode")],
            "turns": ["Hotter.", ""],
            "added": {"2": [tool("clean")]},
            **changes,
        }
        environments.append(agentgym.make("agentgym/function-turns-v1"))
        await environments[-1].reset(Task("t", "e", "Heat it.", parameters=parameters), seed=0)
        return environments[-1]

    yield opened
    for environment in environments:
        await environment.close()


async def call(environment, name, **arguments):
    return (await environment.call(Call(name, arguments))).content


async def say(environment, text="Done."):
    return [message.text for message in await environment.respond(Message("assistant", text))]


def turns_of(text):
    return json.loads(text.partition("Record: ")[2])["turns"]


async def test_each_turn_ends_with_a_message_and_the_record_tells_states_and_results_apart(opened):
    records = []
    for heats in ((200, 250), (200, 250), (200, 260)):
        oven = await opened()
        assert await call(oven, "set_heat", heat=heats[0]) == f'{{"heat": {heats[0]}}}'
        assert await say(oven) == ["Hotter."]
        assert "Expected set_heat(" in await call(oven, "set_heat", heat="much")
        assert await call(oven, "set_heat", heat=7) == "{'heat': 7, 'raw': {1}}"
        await call(oven, "set_heat", heat=heats[1])
        assert "clean" not in oven.tools
        assert await say(oven) == ["I have updated some more functions you can choose from. What about now?"]
        assert "absent is not installed in the sandbox" in await call(oven, "clean")
        (last,) = await say(oven)
        assert oven.ended
        assert await say(oven) == []
        records.append(turns_of(last))
    first, second, third = records
    assert first == second
    assert [len(turn["results"]) for turn in first] == [1, 2, 1]
    assert first[0] == third[0]
    assert first[1]["state"] != third[1]["state"]
    assert "nothing changes any more" in await call(oven, "set_heat", heat=1)


async def test_a_call_that_breaks_the_functions_ends_the_episode_and_is_the_agent_s_result(opened, monkeypatch):
    oven = await opened()
    assert "It is over" in await call(oven, "explode", seconds=0)
    assert oven.ended
    monkeypatch.setattr("agentgym.sandboxes.function_turns.CALL_S", 0.2)
    oven = await opened()
    assert "It is over" in await call(oven, "explode", seconds=60)
    assert await say(oven) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"source": "/nowhere"}, "No such file or directory: '/nowhere'"),
        ({"classes": {"Oven": "kitchen.parts.stove"}}, "cannot be loaded: ModuleNotFoundError"),
        ({"classes": {"Stove": "kitchen.parts.oven"}}, "cannot be loaded: AttributeError"),
        ({"config": {}}, "cannot be loaded: KeyError"),
        ({"tools": [{"name": "x"}]}, "do not describe functions: KeyError"),
        ({"turns": 3}, "do not describe functions: TypeError"),
    ],
)
async def test_a_task_without_functions_is_refused(opened, changes, message):
    with pytest.raises(TaskError, match=message):
        await opened(**changes)
