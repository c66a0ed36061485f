"""Checks one environment instance call by call, without a policy or a reward."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from agentgym import (
    Call,
    ConformanceError,
    Content,
    Environment,
    LimitUnenforceable,
    Message,
    Result,
    SandboxUnavailable,
    Task,
    TextPart,
    Tool,
)
from agentgym.environment import EnvironmentWrapper

from .arguments import plausible
from .block_guard import in_time
from .findings import Findings, short
from .tools import look_at_tool

T = TypeVar("T")
EPISODE_S, CLOSE_S = 120.0, 30.0
"""How long an episode, or one step of an environment in it, and the end of an environment may take, in seconds."""
SPOKEN = Message("assistant", "I am not sure. What do you advise?")


@dataclass(slots=True)
class CheckSubject:
    """The subject of the checks: how to make an instance, the tasks to play, and where findings go.

    `tools` are the agent's tools at the first task, known once `check_opening` has reset an instance.
    """

    make: Callable[[], Environment]
    tasks: Sequence[Task]
    findings: Findings
    seed: int = 0
    tools: list[Tool] = field(default_factory=list)
    instances: list[Environment] = field(default_factory=list)

    @property
    def task(self) -> Task:
        return self.tasks[0]


class RecordedEnvironment:
    """One instance and a transcript of everything that it returned, as comparable text."""

    def __init__(self, subject: CheckSubject, task: Task, seed: int) -> None:
        self.environment, self.task, self.seed = subject.make(), task.public(), seed
        self._fail = subject.findings.give_up
        self.transcript: list[tuple[str, str]] = []

    async def open(self) -> list[Message]:
        opening = await self._in_time(self.environment.reset(self.task, seed=self.seed), "reset")
        self.transcript.append(("reset", "\n".join(f"{m.role}: {plain(m.content)}" for m in opening)))
        await self._note_state()
        return opening

    async def call(self, call: Call) -> Result:
        result = await self.environment.call(call)
        text = f"{result.status}: {plain(result.content)}"
        self.transcript.append((f"{call.name}({short(call.arguments, 80)})", text))
        await self._note_state()
        return result

    async def speak(self) -> None:
        answer = await self._in_time(self.environment.respond(SPOKEN), "respond")
        self.transcript.append(("respond", "\n".join(plain(m.content) for m in answer)))

    async def close(self) -> None:
        """Close the environment."""
        await self._in_time(self.environment.close(), "close", CLOSE_S)

    async def _in_time(self, work: Awaitable[T], method: str, limit_s: float | None = None) -> T:
        name = type(EnvironmentWrapper.unwrap(self.environment)).__name__
        return await in_time(work, f"{name}.{method}", EPISODE_S if limit_s is None else limit_s, self._fail)

    async def _note_state(self) -> None:
        self.transcript.append(("state_key", str(await self._in_time(self.environment.state_key(), "state_key"))))

    async def play(self, calls: Sequence[Call]) -> list[tuple[str, str]]:
        """Reset, make the calls in order, send one message, close. Returns: the transcript."""
        try:
            await self.open()
            for call in calls:
                await self.call(call)
            await self.speak()
        finally:
            await self.close()
        return self.transcript


def plain(content: Content) -> str:
    """Return content as text, with an image as its length and the beginning of its data."""
    if isinstance(content, str):
        return content
    return "".join(p.text if isinstance(p, TextPart) else f"[image {len(p.data)} {p.data[:40]}]" for p in content)


def calls_for(all_tools: Sequence[Tool], seed: int, rounds: int = 2) -> list[Call]:
    """Return plausible calls in `rounds` rounds, each of up to six tools that do not end the episode, shuffled."""
    rng = random.Random(seed)
    calls: list[Call] = []
    for _ in range(rounds):
        tools = [tool for tool in all_tools if not tool.options.final]
        rng.shuffle(tools)
        calls += [Call(tool.name, plausible(tool, rng), f"call_{len(calls) + n}") for n, tool in enumerate(tools[:6])]
    return calls


async def check_opening(subject: CheckSubject) -> bool:
    """Check that reset works and opens a conversation. Returns: whether further checks make sense."""
    recorded = RecordedEnvironment(subject, subject.task, subject.seed)
    try:
        opening = await recorded.open()
    except (ConformanceError, LimitUnenforceable, SandboxUnavailable):  # of this machine, not of the environment
        raise
    except Exception as error:  # noqa: BLE001  reported as a finding
        subject.findings.add(
            f"reset raised {type(error).__name__} on task {subject.task.id!r}: {short(error, 400)}. If the environment "
            "needs parameters, give check_environment a task set."
        )
        return False
    finally:
        with subject.findings.no_exception("close after reset"):
            await recorded.close()
    subject.tools = list(recorded.environment.tools.values())
    for tool in subject.tools:
        look_at_tool(tool, subject.findings)
    if not subject.tools and type(recorded.environment).respond is Environment.respond:
        subject.findings.add(
            "It has no tool and answers no message: the agent can do nothing. Mark methods with @tool (a method "
            "without it is none), or define respond."
        )
    if not opening or not all(isinstance(message, Message) for message in opening):
        subject.findings.add(
            f"reset returned {short(opening)}: the opening is a list of at least one Message. "
            "End reset with `return task.opening()`."
        )
        return False
    if any(message.role not in ("system", "user") for message in opening):
        subject.findings.add(f"The opening holds roles {[m.role for m in opening]}: only system and user may open.")
    if not any(message.text.strip() or not isinstance(message.content, str) for message in opening):
        subject.findings.add("The opening says nothing: the agent is asked nothing.")
    return True


async def check_determinism_and_isolation(subject: CheckSubject) -> None:
    """Check that the same seed and calls give the same results, also after and beside other episodes."""
    findings, seed = subject.findings, subject.seed
    other_task, other_seed = subject.tasks[-1], seed + 1
    calls, others = calls_for(subject.tools, 0), calls_for(subject.tools, 1)
    randomness = random.getstate()
    with findings.no_exception("An episode played by hand"):
        first = await RecordedEnvironment(subject, subject.task, seed).play(calls)
        other = await RecordedEnvironment(subject, other_task, other_seed).play(others)
        before = _class_state(subject)
        repeated = await RecordedEnvironment(subject, subject.task, seed).play(calls)
        if difference := _first_difference(first, repeated):
            if changed := _changed(before, _class_state(subject)):
                findings.add(f"State leaks between episodes through {changed}. Keep it on the instance. {difference}")
            else:
                findings.add(
                    f"It is not deterministic under a seed, or state outlives an episode. {difference} Draw from "
                    "random.Random(seed), read no clock, and keep nothing outside of the instance."
                )
        else:
            await _check_side_by_side(subject, (first, calls), (other, others), other_task, other_seed)
        if random.getstate() != randomness:
            findings.add(
                "It draws from (or seeds) the random module's shared generator, which other episodes share. Make a "
                "random.Random(seed) in reset and keep it on the instance."
            )


async def _check_side_by_side(
    subject: CheckSubject,
    left: tuple[list[tuple[str, str]], list[Call]],
    right: tuple[list[tuple[str, str]], list[Call]],
    other_task: Task,
    other_seed: int,
) -> None:
    """Check that two instances, called in alternation, return the same texts as each alone.

    `left`, `right`: for each instance, the transcript of it alone, and the calls to make.
    """
    a, b = (
        RecordedEnvironment(subject, subject.task, subject.seed),
        RecordedEnvironment(subject, other_task, other_seed),
    )
    try:
        await a.open()
        await b.open()
        for step in range(max(len(left[1]), len(right[1]))):
            if step < len(left[1]):
                await a.call(left[1][step])
            if step < len(right[1]):
                await b.call(right[1][step])
        await a.speak()
        await b.speak()
    finally:
        await a.close()
        await b.close()
    for alone, together in ((left[0], a.transcript), (right[0], b.transcript)):
        if difference := _first_difference(alone, together):
            subject.findings.add(f"Two episodes at once disturb each other: state is shared. {difference}")
            return


async def check_checkpoint(subject: CheckSubject) -> None:
    """Check that a fresh instance restored from a checkpoint continues exactly like the original."""
    findings = subject.findings
    original, copy = (
        RecordedEnvironment(subject, subject.task, subject.seed),
        RecordedEnvironment(subject, subject.task, subject.seed),
    )
    calls = calls_for(subject.tools, 3)
    half = len(calls) // 2
    try:
        with findings.no_exception("Checkpoint and restore"):
            await original.open()
            for call in calls[:half]:
                await original.call(call)
            checkpoint = await original.environment.checkpoint()
            if checkpoint is None:
                return
            try:
                json.dumps(dict(checkpoint.data))
            except (TypeError, ValueError) as error:
                findings.add(f"The data of a checkpoint is not plain: {short(error)}.")
            original.transcript.clear()
            for call in calls[half:]:
                await original.call(call)
            await copy.environment.restore(subject.task.public(), checkpoint, seed=subject.seed)
            for call in calls[half:]:
                await copy.call(call)
            if difference := _first_difference(original.transcript, copy.transcript):
                findings.add(f"A restored checkpoint does not go on as the original. {difference}")
    finally:
        with findings.no_exception("close after restore"):
            await original.close()
            await copy.close()


def _first_difference(first: list[tuple[str, str]], second: list[tuple[str, str]]) -> str:
    for (did, got), (_, got_again) in zip(first, second, strict=False):
        if got != got_again:
            return f"{did} gave {short(got)!r} and then {short(got_again)!r}."
    return "" if len(first) == len(second) else f"There were {len(first)} answers and then {len(second)}."


def _class_state(subject: CheckSubject) -> dict[str, str]:
    """Return the text of every data attribute of the environment's classes, to see which one changes."""
    results = {}
    for cls in type(subject.make()).__mro__:
        if cls in (Environment, object):
            continue
        for name, value in vars(cls).items():
            if not name.startswith("__") and not callable(value) and name != "tools":
                results[f"the class attribute {cls.__name__}.{name}"] = short(repr(value), 2_000)
    return results


def _changed(before: dict[str, str], after: dict[str, str]) -> str:
    names = [name for name, text in after.items() if before.get(name) != text]
    return ", ".join(f"{name} (now {short(after[name], 60)})" for name in names)
