"""Verdicts on tasks that scripts have played, what is kept of them on disk, and how failures of this host count."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace

import pytest

from agentgym import Call, Environment, JudgeError, Message, Reward, Task, TaskError, TaskSet, ToolError, register, tool
from agentgym.evaluation import task_validation
from agentgym.evaluation.task_validation import summarise_reason, validate_tasks

JUDGED: Counter[str] = Counter()
"""How many episodes of each task were judged."""


class Paid(Reward):
    """Pays what the task says for the answer; `pays` maps each answer to the rewards of its first, second, ... time."""

    def __init__(self) -> None:
        self._times: Counter[tuple[str, str]] = Counter()

    def outcome(self, episode):
        JUDGED[episode.task.id] += 1
        answer = next((str(call.arguments.get("text", "")) for turn in episode.turns for call in turn.calls), "")
        pays = episode.task.truth["pays"].get(answer, [0.0])
        self._times[episode.task.id, answer] += 1
        paid = pays[min(self._times[episode.task.id, answer], len(pays)) - 1]
        if paid is None:
            raise JudgeError("there is no memory left")
        return {"success": paid}

    def feedback(self, episode):
        return "1 failed, 0 passed"


class Answers(Environment):
    """Takes an answer. Nothing is isolated."""

    reward = "test_validation_paid"

    async def reset(self, task, *, seed):
        if task.parameters.get("broken"):
            raise TaskError("the step RUN make ended with 2: no rule")
        return list(task.opening())

    @tool(final=True)
    def answer(self, text: str = "") -> str:
        """Give the answer."""
        if text == "refused":
            raise ToolError("too many files were changed")
        return "taken"

    @classmethod
    def reward_hacks(cls, task):
        return {"is refused": [says("refused")], "guesses": [says("42")], "prints OK": [says("OK")]}


register("test_validation_paid", Paid, kind="rewards")
register("test/validation-v1", Answers)


def says(text: str) -> Message:
    return Message("assistant", "", (Call("answer", {"text": text}),))


def oracle(task: Task) -> list[Message]:
    if task.parameters.get("unsolved"):
        raise TaskError(f"{task.id}: its folder contains no solution.")
    return [says("right")]


def task(name: str, pays: dict, **parameters) -> Task:
    return Task(name, "test/validation-v1", prompt=f"What is {name}?", parameters=parameters, truth={"pays": pays})


RIGHT = {"right": [1.0]}
CASES = {
    "sound": (task("sound", RIGHT), "sound", ""),
    "in part": (task("in part", {"right": [0.5]}), "faulty", "its solution is not paid: 1 failed, 0 passed"),
    "never": (task("never", {}), "faulty", "its solution is not paid: 1 failed, 0 passed"),
    "free": (task("free", {**RIGHT, "": [1.0]}), "faulty", "it pays 1 for nothing"),
    "broken": (task("broken", RIGHT, broken=True), "faulty", "the step RUN make ended with 2: no rule"),
    "sometimes": (
        task("sometimes", {"right": [1.0, 0.0]}),
        "flaky",
        "its solution is paid differently: 1, then 0; 1 failed, 0 passed",
    ),
    "by luck": (task("by luck", {**RIGHT, "": [0.0, 1.0]}), "flaky", "doing nothing is paid differently: 0, then 1"),
    "guessed": (task("guessed", {**RIGHT, "42": [1.0]}), "hackable", "it pays an agent that guesses: 1"),
    "printed": (task("printed", {**RIGHT, "OK": [0.25]}), "hackable", "it pays an agent that prints OK: 0.25"),
    "open": (
        task("open", {}, unsolved=True),
        "unsolved",
        "its folder contains no solution: 1 failed, 0 passed",
    ),
    "open and guessed": (
        task("open and guessed", {"OK": [1.0]}, unsolved=True),
        "hackable",
        "it pays an agent that prints OK: 1",
    ),
}


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    """Wait for nothing before a task is tried again, and count anew."""
    monkeypatch.setattr(task_validation, "PAUSES_S", (0.0, 0.0))
    JUDGED.clear()


async def test_each_task_gets_its_verdict(tmp_path):
    tasks = TaskSet("cases", {"train": [task for task, _, _ in CASES.values()]}, oracle=oracle)
    steps = []
    verdicts = await validate_tasks(
        tasks, tmp_path / "journal", at_once=3, progress=lambda done, total, kinds: steps.append((done, dict(kinds)))
    )
    assert {name: (v.kind, v.reason) for name, v in verdicts.items()} == {
        name: (kind, reason) for name, (_, kind, reason) in CASES.items()
    }
    assert [done for done, _ in steps] == list(range(len(CASES) + 1))
    assert steps[-1][1] == dict(Counter(kind for _, kind, _ in CASES.values()))


class Started(Answers):
    """Has a further call, with which the solution and a reward hack begin."""

    @tool
    def start(self, text: str = "") -> str:
        """Start."""
        return "started"

    @classmethod
    def reward_hacks(cls, task):
        return {"goes on otherwise": [START, says("42")]}


register("test/validation-start-v1", Started)
START = Message("assistant", "", (Call("start", {"text": "start"}),))


@pytest.mark.parametrize(("hack", "start", "kind"), [(0.5, 0.5, "sound"), (0.75, 0.5, "hackable"), (0, 0.5, "sound")])
async def test_a_hack_may_earn_what_the_start_of_the_solution_earns_that_it_begins_with(hack, start, kind):
    pays = {"start": [1.0, 1.0, float(hack), start]}  # the solution twice, the hack, and its start alone
    tasks = TaskSet(
        "started",
        {"train": [replace(task("started", pays), environment="test/validation-start-v1")]},
        oracle=lambda task: [START, says("right")],
    )
    verdicts = await validate_tasks(tasks)
    assert verdicts["started"].kind == kind


async def test_a_set_without_solutions_is_unsolved_unless_its_reward_tries_them(tmp_path, monkeypatch):
    tasks = TaskSet("open", {"train": [CASES["sound"][0]]})
    assert (await validate_tasks(tasks, tmp_path / "a"))["sound"].kind == "unsolved"
    monkeypatch.setattr(Paid, "task_fault", lambda self, task: "")
    assert (await validate_tasks(tasks, tmp_path / "b"))["sound"].kind == "sound"
    monkeypatch.setattr(Paid, "task_fault", lambda self, task: "its gold is no number")
    verdict = (await validate_tasks(tasks, tmp_path / "c"))["sound"]
    assert (verdict.kind, verdict.reason) == ("faulty", "its gold is no number")


async def test_verdicts_are_kept_and_a_truncated_one_is_reached_again(tmp_path):
    tasks = TaskSet("kept", {"train": [CASES[name][0] for name in ("sound", "printed")]}, oracle=oracle)
    journal = tmp_path / "journal"
    first = await validate_tasks(tasks, journal)
    judged = dict(JUDGED)
    assert judged == {"sound": 7, "printed": 7}
    assert await validate_tasks(tasks, journal) == first
    assert dict(JUDGED) == judged
    lines = journal.read_text().splitlines(keepends=True)
    cut = next(n for n, line in enumerate(lines) if '"printed"' in line)
    journal.write_text("".join(lines[:cut]) + lines[cut][:-20])  # as a kill leaves it
    second = await validate_tasks(tasks, journal)
    assert {name: v.kind for name, v in second.items()} == {"sound": "sound", "printed": "hackable"}
    assert JUDGED["printed"] == 14 or JUDGED["sound"] == 14


async def test_a_failure_of_this_host_is_tried_again_and_never_the_tasks(tmp_path):
    passing = task("passing", {"right": [None] * 3 + [1.0]})
    lasting = task("lasting", {"right": [None]})
    tasks = TaskSet("host", {"train": [passing, lasting]}, oracle=oracle)
    verdicts = await validate_tasks(tasks, tmp_path / "journal")
    assert verdicts["passing"].kind == "sound"
    assert verdicts["lasting"].kind == "undecided"
    assert "there is no memory left" in verdicts["lasting"].reason
    stored = [json.loads(line)[1]["id"] for line in (tmp_path / "journal").read_text().splitlines() if line]
    assert stored == ["passing"], "what is undecided is tried again by the next command"


@pytest.mark.parametrize(
    ("reason", "summary"),
    [
        ("its solution is not paid: E  assert 3 == 4", "its solution is not paid"),
        (
            "its base image 'a:1' is not in the cache (which has b). Put it there",
            "its base image '...' is not in the cache",
        ),
        ("3 of 14 tests do not pass: x::y", "N of N tests do not pass"),
        (
            "its Dockerfile copies to /tmp/a.txt, which is not possible",
            "its Dockerfile copies to /..., which is not possible",
        ),
        ("environment has ADD. Remove it", "environment has ADD"),
        ("", ""),
    ],
)
def test_reasons_that_differ_in_details_have_one_summary(reason, summary):
    assert summarise_reason(reason) == summary
