"""verifiers itself, both ways: its interpreter is in an environment of its own, where the wheel is installed too."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym import Budgets, Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, load_task_set, registry
from agentgym.bridges.verifiers import register_verifiers, verifiers_tasks

EPISODES = 40


@pytest.fixture
def python(monkeypatch):
    if not (interpreter := os.environ.get("AGENTGYM_VERIFIERS_PYTHON")):
        pytest.skip("AGENTGYM_VERIFIERS_PYTHON names no interpreter that has verifiers and agentgym")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))  # where the modules of tasksets are
    monkeypatch.setattr(registry, "_registered", {kind: dict(names) for kind, names in registry._registered.items()})
    return interpreter


def play(script_of, tasks, **options):
    config = RolloutConfig(concurrency=8, budgets=Budgets(infra_retries=0, **options))
    return asyncio.run(EpisodeManager(lambda task: ScriptedPolicy(script_of(task)), config).collect(tasks))


def transcript_of(trajectory):
    """What was said and read, without the result that ended the episode: verifiers does not show it to the model."""
    messages = [(m.role, m.text, [(call.name, call.arguments) for call in m.calls]) for m in trajectory.messages()]
    return messages[:-1] if messages[-1][0] == "tool" else messages


def test_tasks_of_ours_come_back_from_verifiers_with_the_same_episodes(python):
    original = load_task_set("text/locks-v1")
    taskset = {"id": "verifiers_locks", "tasks": "text/locks-v1:train"}
    register_verifiers("peer/locks-v1", python, taskset, most_tasks=2 * EPISODES)
    tasks = verifiers_tasks("peer/locks-v1", train=EPISODES)["train"]
    originals = [original["train"][task.parameters["index"]] for task in tasks]
    players = {task.id: original.oracle if n % 2 else original.imperfect_oracle for n, task in enumerate(tasks)}
    by_id = {task.id: own for task, own in zip(tasks, originals, strict=True)}
    there = play(lambda task: players[task.id](by_id[task.id]), tasks)
    own_players = {own.id: players[task.id] for task, own in zip(tasks, originals, strict=True)}
    here = play(lambda task: own_players[task.id](task), originals)
    for ours, theirs in zip(here, there, strict=True):
        assert theirs.error is None
        assert transcript_of(theirs) == transcript_of(ours)
        assert theirs.outcome == {**ours.outcome, "episode_return": ours.return_from()}
        assert theirs.return_from() == ours.return_from()
    assert {trajectory.success for trajectory in here} == {0.0, 1.0}


def test_an_episode_that_is_stopped_on_either_side_is_judged_as_it_stands(python):
    original = load_task_set("text/locks-v1")
    taskset = {"id": "verifiers_locks", "tasks": "text/locks-v1:train"}
    register_verifiers("peer/stopped-v1", python, taskset, most_tasks=4, env={"agent": {"max_turns": 2}})
    register_verifiers("peer/left-v1", python, taskset, most_tasks=4)
    [task] = verifiers_tasks("peer/left-v1", train=1)["train"]
    own = original["train"][task.parameters["index"]]
    [ours] = play(original.oracle, [own], max_turns=2)
    for name, budget in (("peer/stopped-v1", 16), ("peer/left-v1", 2)):
        [trajectory] = play(lambda task: original.oracle(own), [replace(task, environment=name)], max_turns=budget)
        assert trajectory.error is None
        assert 0 < trajectory.outcome["progress"] == ours.outcome["progress"] < 1
        assert trajectory.success == 0


def test_an_environment_of_verifiers_with_a_tool_server_is_one_of_ours(python):
    """Its tool server is a process that takes seconds to start, for each episode."""
    register_verifiers("peer/sums-v1", python, {"id": "verifiers_sums", "size": 4})
    tasks = sorted(verifiers_tasks("peer/sums-v1", train=4)["train"], key=lambda task: task.parameters["index"])
    assert [message.text for message in tasks[1].messages] == ["Be exact.", "What is 1 + 7?"]

    def script(task):
        number = task.parameters["index"]
        calls = (Call("add", {"left": number, "right": 7 * number}),)
        return [Message("assistant", "", calls), Message("assistant", f"It is {8 * number}.")]

    good, misjudged = play(script, tasks[:2])
    assert [message.text for message in good.messages()][2:] == ["", "0", "It is 0."]
    assert good.outcome == {"turns": 2.0, "right": 1.0, "success": 1.0}
    assert good.return_from() == 1.0
    assert "the judge broke" in misjudged.error, "no reward of 0"
    [dead] = play(script, tasks[3:])
    assert "The verifiers process failed: it has ended" in dead.error
