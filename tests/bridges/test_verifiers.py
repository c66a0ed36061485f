"""The process of verifiers that misbehaves: a clear failure of the episodes that it runs, and nothing stays behind.

Here a small program plays its part; tests/bridges/test_verifiers_peer.py runs verifiers itself.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentgym import Budgets, Call, EpisodeManager, Message, RolloutConfig, ScriptedPolicy, Task, registry
from agentgym.bridges.verifiers import register_verifiers, verifiers_tasks
from agentgym.bridges.verifiers.worker_process import WorkerProcess
from agentgym.errors import EnvironmentServerError, TaskError

PROGRAM = """#!{python}
import json, os, sys, time
mode, pids = {mode!r}, {pids!r}
open(os.path.join(pids, str(os.getpid())), "w").close()
def write(line):
    print(line if isinstance(line, str) else json.dumps(line), flush=True)
tool = {{"function": {{"name": "add", "description": "Add.", "parameters": {{"properties": {{"n": {{}}}}}}}}}}
if mode == "words":
    sys.exit("no module named verifiers")
for text in sys.stdin:
    line = json.loads(text)
    if line["op"] == "open":
        rows = [{{"key": "k%d" % n, "messages": [{{"role": "user", "content": "Task %d" % n}}]}} for n in range(4)]
        write({{"failed": "KeyError: 'x'"}} if mode == "unopened" else {{"opened": rows}})
    elif line["op"] == "begin":
        ask = {{"episode": line["episode"], "messages": [{{"role": "user", "content": "Go."}}], "tools": [tool]}}
        write(ask if mode != "no messages" else {{"episode": line["episode"], "tools": 3}})
    elif line["op"] == "say" and line["episode"] == "0":
        if mode == "die":
            sys.exit("out of memory")
        if mode == "garbage":
            write("Traceback: nothing")
        if mode == "flood":
            write("[" * 50_000_000)
        if mode == "lists":
            write([1, 2])
        if mode == "hang":
            continue
        if mode == "chatter":
            for n in range(1000):
                write({{"episode": "0", "messages": [], "tools": [tool]}})
            continue
        if mode == "deaf":
            time.sleep(1000)
        bad = {{"rewards": {{"r": "much"}}, "metrics": {{}}, "stop": None}}
        good = {{"rewards": {{"r": [0.5, 2.0]}}, "metrics": {{"m": 3.0}}, "stop": None}}
        write({{"episode": line["episode"], "over": bad if mode == "verdict" else good}})
    elif line["op"] == "say":
        write({{"episode": line["episode"], "over": {{"rewards": {{"r": [0.5, 1.0]}}, "metrics": {{}}, "stop": None}}}})
"""


@pytest.fixture
def registered(tmp_path, monkeypatch):
    """Registers a program of a mode, and asserts at the end that every process has ended."""
    monkeypatch.setattr(registry, "_registered", {kind: dict(names) for kind, names in registry._registered.items()})
    pids = tmp_path / "pids"
    pids.mkdir()

    def register(mode: str, **options) -> str:
        program = tmp_path / "python"
        program.write_text(PROGRAM.format(python=sys.executable, mode=mode, pids=str(pids)), encoding="utf-8")
        program.chmod(0o755)
        return register_verifiers("fake/sums-v1", str(program), "sums", **options)

    yield register
    assert [pid for pid in pids.iterdir() if Path("/proc", pid.name).exists()] == []


def task(index=0):
    return Task(f"t{index}", "fake/sums-v1", "Task", parameters={"index": index, "key": f"k{index}"})


async def play(*tasks, calls=1):
    config = RolloutConfig(concurrency=4, budgets=Budgets(infra_retries=0, max_turns=100))
    script = [Message("assistant", "", tuple(Call("add", {}, f"call_{n}") for n in range(calls)))] * 100
    return await EpisodeManager(lambda task: ScriptedPolicy(script), config).collect(tasks)


async def test_an_episode_is_judged_by_what_the_process_says(registered):
    registered("good")
    [episode] = await play(task())
    assert [message.text for message in episode.messages()] == ["Go.", "", "[the episode is over]"]
    assert episode.outcome == {"r": 0.5, "m": 3.0, "success": 1.0}
    assert episode.return_from() == 1.0


async def test_half_of_a_surrogate_pair_is_the_agents_mistake_and_does_not_reach_their_servers(registered):
    registered("good")
    script = [Message("assistant", "", (Call("add", {"n": "\ud800"}),)), Message("assistant", "I \udc00 go.")]
    config = RolloutConfig(budgets=Budgets(infra_retries=0))
    [episode] = await EpisodeManager(ScriptedPolicy(script), config).collect([task()])
    assert episode.error is None
    assert "contains half a character" in episode.turns[0].results[0].content
    assert episode.outcome["r"] == 0.5


async def test_a_call_after_the_end_is_told_so(registered):
    registered("good")
    [episode] = await play(task(), calls=2)
    assert episode.error is None
    assert len(episode.turns) == 1
    assert "[the episode is over]" in [message.text for message in episode.messages()]


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("die", "it has ended. Its last words: out of memory"),
        ("garbage", "it wrote a line that makes no sense"),
        ("flood", "it wrote a line that makes no sense"),
        ("lists", "it wrote a line that makes no sense: it is not a JSON object"),
        ("hang", "did not go on with episode 0 within 0.5 s"),
        ("deaf", "did not go on with episode 0 within 0.5 s"),
        ("chatter", "it says more than it was asked"),
        ("verdict", "The verifiers process sent a judgement that cannot be"),
        ("no messages", "The verifiers process sent a request that cannot be"),
        ("unopened", "The taskset cannot be opened: KeyError: 'x'"),
        ("words", "it has ended. Its last words: no module named verifiers"),
    ],
)
async def test_a_process_that_misbehaves_fails_the_episode_with_the_reason(registered, mode, message, monkeypatch):
    monkeypatch.setattr("agentgym.bridges.verifiers.worker_process._END_S", 0.2)
    registered(mode, answer_s=0.5 if mode in ("hang", "deaf") else 60)
    [episode] = await play(task())
    assert message in episode.error
    assert episode.outcome == {}


async def test_a_death_fails_every_episode_of_the_process_and_the_next_ones_get_another(registered):
    registered("die")
    first = await play(task(0), task(1))
    assert any("out of memory" in str(episode.error) for episode in first)
    [later] = await play(task(2))
    assert "out of memory" in later.error, "its first episode again, so a new process"


async def test_what_cannot_be_started_and_what_is_no_task_are_named(registered, tmp_path):
    register_verifiers("fake/none-v1", str(tmp_path / "nosuch"), "sums")
    [episode] = await play(Task("t", "fake/none-v1", "x", parameters={"index": 0, "key": "k0"}))
    assert "nosuch' cannot be started" in episode.error
    registered("good")
    [episode] = await play(Task("t", "fake/sums-v1", "x"))
    assert "Make the tasks by `verifiers_tasks`" in episode.error
    with pytest.raises(EnvironmentServerError, match="cannot be started"):
        await WorkerProcess.start(str(tmp_path / "nosuch"), {}, 1, 1.0)


async def test_tasks_are_drawn_into_splits_and_too_few_are_named(registered):
    """Also where an event loop runs."""
    registered("good")
    tasks = verifiers_tasks("fake/sums-v1", train=2, held_out=1)
    assert [len(tasks[split]) for split in tasks] == [2, 0, 1]
    assert {entry.parameters["key"] for split in tasks.values() for entry in split} <= {f"k{n}" for n in range(4)}
    assert tasks["train"][0].messages[0].text == f"Task {tasks['train'][0].parameters['index']}"
    with pytest.raises(TaskError, match="has 4 tasks, which are fewer than the 5"):
        verifiers_tasks("fake/sums-v1", train=5)
