"""Scripted players of the tasks over apps."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from agentgym import Call, Message, Task, seed_of

READING = frozenset(
    {"search", "read", "agenda", "payments", "standing_orders", "orders", "playlists", "songs_of", "balance"}
)
"""APIs that change nothing."""
_ToolCall = tuple[str, dict[str, Any], str]  # name, arguments, and the accompanying text


def oracle(task: Task) -> list[Message]:
    """Read the documentation of each API before its first use, make the calls that solve the task, and finish."""
    steps = json.loads(task.truth["steps"])
    return list(_play(steps, task.truth.get("answer", "")))


def imperfect_oracle(task: Task) -> list[Message]:
    """Play as the oracle does, but make each change wrong with probability 1/2, and the answer too, independently."""
    return list(_play(*_spoilt(task)))


def _spoilt(task: Task) -> tuple[list[Any], str]:
    """Return the steps and the answer of a task, with the mistakes of the imperfect oracle."""
    rng = random.Random(seed_of("imperfect", task.id))
    steps = json.loads(task.truth["steps"])
    for _, api, arguments in steps:
        if api not in READING and rng.random() < 0.5:
            name = rng.choice([name for name in arguments if name not in ("field", "folder")])
            arguments[name] = _wrong(arguments[name])
    answer = task.truth.get("answer", "")
    return steps, _wrong(answer) if answer and rng.random() < 0.5 else answer


def code_oracle(task: Task) -> list[Message]:
    """Play as the oracle does, for the environment that runs code: all calls stand in one program."""
    return list(_run(json.loads(task.truth["steps"]), task.truth.get("answer", "")))


def imperfect_code_oracle(task: Task) -> list[Message]:
    """Play as the imperfect oracle does, for the environment that runs code."""
    return list(_run(*_spoilt(task)))


def _run(steps: list[Any], answer: str) -> Iterator[Message]:
    lines = []
    for app, api, arguments in steps:
        named = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        lines.append(f"print(apis.{app}.{api}({named}))")
    for number, app in enumerate(dict.fromkeys(app for app, _, _ in steps)):
        yield _message("docs", {"app": app}, "", number)
    yield _message("run", {"code": "\n".join(lines)}, "", len(steps))
    yield _message("finish", {"answer": answer} if answer else {}, "", len(steps) + 1)


def practised_oracle(task: Task) -> list[Message]:
    """Play as the oracle does, but read no documentation, and state each found value one message before the call that
    stores it.
    """
    return _do_jobs(task, json.loads(task.truth["steps"]))


def hasty_oracle(task: Task) -> list[Message]:
    """Play as the practised oracle does, but omit each change with probability 1/2, independently."""
    return _do_jobs(task, _hasty(task, json.loads(task.truth["steps"])))


def _do_jobs(task: Task, steps: list[Any]) -> list[Message]:
    calls = [call for _, job in _jobs(task, steps) for call in job]
    return [_message(*call, number) for number, call in enumerate([*calls, ("finish", {}, "")])]


def team_oracle(task: Task) -> list[Message]:
    """Play a planner that hands over one job after another, and executors that act like the practised oracle."""
    return _hand_over(task, json.loads(task.truth["steps"]))


def hasty_team_oracle(task: Task) -> list[Message]:
    """Play as the team's oracle does, but executors omit each change with probability 1/2 and report it as done."""
    return _hand_over(task, _hasty(task, json.loads(task.truth["steps"])))


def _hasty(task: Task, steps: list[Any]) -> list[Any]:
    """Return the steps, with None for each omitted change."""
    rng = random.Random(seed_of("hasty", task.id))
    return [step if step[1] in READING or rng.random() < 0.5 else None for step in steps]


def _hand_over(task: Task, steps: list[Any]) -> list[Message]:
    calls: list[_ToolCall] = []
    for sentence, job in _jobs(task, steps):
        calls += [("delegate", {"task": sentence}, ""), *job, ("report", {"text": "Done."}, "")]
    return [_message(*call, number) for number, call in enumerate([*calls, ("finish", {}, "")])]


def _jobs(task: Task, steps: list[Any]) -> Iterator[tuple[str, list[_ToolCall]]]:
    """Yield the sentence in which the planner hands over each job, and the calls that do it.

    In each job, the text of the last call but one states the line that the last call writes.
    """
    for sentence, count in json.loads(task.truth["jobs"]):
        job, steps = [*filter(None, steps[:count])], steps[count:]
        texts = [""] * len(job)
        texts[-2:-1] = [str(job[-1][2].get("line", ""))] if len(job) > 1 else []
        calls = [{"app": app, "api": api, "arguments": arguments} for app, api, arguments in job]
        yield sentence, [("call", call, text) for call, text in zip(calls, texts, strict=True)]


def _play(steps: list[Any], answer: str) -> Iterator[Message]:
    documented = set()
    for number, (app, api, arguments) in enumerate(steps):
        if (app, api) not in documented:
            documented.add((app, api))
            yield _message("docs", {"app": app, "api": api}, "", 2 * number)
        yield _message("call", {"app": app, "api": api, "arguments": arguments}, "", 2 * number + 1)
    yield _message("finish", {"answer": answer} if answer else {}, "", 2 * len(steps))


def _message(tool: str, arguments: dict[str, Any], text: str, number: int) -> Message:
    return Message("assistant", text, (Call(tool, arguments, f"call_{number}"),))


def _wrong(value: Any) -> Any:
    """Return another value of the same kind: a neighbouring number or date, or the text with its last part changed."""
    if isinstance(value, int):
        return value + 1
    return value[:-1] + ("1" if value[-1:] != "1" else "2") if value[-1:].isdigit() else f"{value} 2"
