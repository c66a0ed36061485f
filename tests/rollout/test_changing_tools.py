"""Tools of a task, and tools that come and go during an episode: told to every policy, and the same in imitation."""

from __future__ import annotations

import gc
import json

import pytest

from agentgym import Call, Environment, EpisodeManager, Message, ScriptedPolicy, Task, Tool, registry, tool
from agentgym.storage.codec import head_from_json, head_to_json
from agentgym.testing import ByteRenderer

SCRIPT = [
    Message("assistant", "", (Call("unlock", {}),)),
    Message("assistant", "", (Call("vault", {}),)),
    Message("assistant", "Done."),
]


def from_schema(name):
    return Tool.from_schema(name, f"Use the {name}.", {"properties": {}}, lambda arguments: f"{name} used")


class Locked(Environment):
    """A door whose task has a key, and behind which there is a vault."""

    async def reset(self, task, *, seed):
        self.add_tools(from_schema(task.parameters["key"]))
        return task.opening()

    @tool(inline=True)
    def unlock(self) -> str:
        """Unlock the door."""
        self.add_tools(from_schema("vault"))
        self.tools = {name: each for name, each in self.tools.items() if name != "unlock"}
        return "Unlocked."


class RendererWithTools(ByteRenderer):
    """Its prompt shows the tools, as a chat template does."""

    def prompt(self, messages, tools):
        names = [schema["function"]["name"] for schema in tools]
        return super().prompt([*messages, Message("system", json.dumps(names))], tools)


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(registry._registered["environments"], "test/locked-v1", Locked)


async def play(policy, key="brass_key"):
    (trajectory,) = await EpisodeManager(policy).collect([Task("t", "test/locked-v1", "Go.", parameters={"key": key})])
    assert trajectory.error is None
    return trajectory


async def test_an_agent_is_told_which_tools_came_and_went():
    trajectory = await play(ScriptedPolicy(SCRIPT))
    (reply,) = trajectory.turns[0].replies
    assert reply.role == "user"
    assert '"name": "vault"' in reply.text
    assert reply.text.endswith("Tools that are no longer available: unlock.")
    assert trajectory.turns[1].results[0].content == "vault used"
    assert trajectory.turns[1].replies == ()


async def test_a_demonstration_is_tokenised_with_the_tools_that_its_own_task_had():
    warm_start = pytest.importorskip("agentgym.training.stages.warm_start")
    renderer = RendererWithTools()
    trained = await play(ScriptedPolicy(SCRIPT, renderer))
    demonstrated = warm_start.tokenise(await play(ScriptedPolicy(SCRIPT)), renderer)
    assert "brass_key" in bytes(i for i in trained.prompt_ids if i < 256).decode()
    assert demonstrated.arrays().ids.tolist() == trained.arrays().ids.tolist()


async def test_the_tools_of_a_task_are_recorded_and_those_of_a_class_are_not():
    trajectory = await play(ScriptedPolicy(SCRIPT))
    assert [schema["function"]["name"] for schema in trajectory.tools] == ["unlock", "brass_key"]
    restored = head_from_json(json.loads(json.dumps(head_to_json(trajectory))))
    assert list(restored.tools) == list(trajectory.tools)
    assert "tools" not in head_to_json(type(trajectory)("e", trajectory.task))


async def test_tools_of_tasks_that_are_over_are_forgotten():
    """Each of these tasks has a tool of its own; nothing may hold on to it once its episode has ended."""

    async def tools_alive_after(count, label):
        tasks = [Task(f"{label}{i}", "test/locked-v1", "Go.", parameters={"key": f"{label}_{i}"}) for i in range(count)]
        await EpisodeManager(ScriptedPolicy(SCRIPT)).collect(tasks)
        gc.collect()
        return sum(type(thing) is Tool for thing in gc.get_objects())

    few = await tools_alive_after(20, "few")
    assert await tools_alive_after(300, "many") <= few + 5
