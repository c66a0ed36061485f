"""The task set `memory/short-v1`: one person and one memory entry per session, for tiny models."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from functools import cache

from agentgym import Call, Message, Task, TaskSet, seed_of

from ..generator import TaskGenerator, TaskSlot
from .task_set import ENVIRONMENT
from .words import ATTRIBUTES, NAMES, SMALL_TALK

NAME = "memory/short-v1"
SIZES = {"train": 4500, "validation": 120, "unseen_pairs": 360}
FACTS = 3
"""The number of facts that are told in a session. It also has one line of small talk."""
FORGETS = 1 / 2
"""The probability that the imperfect oracle leaves an attribute out of the notes of a task."""
INSTRUCTIONS = {
    "manager": f"Note who speaks, and of {', '.join(ATTRIBUTES)} what is said, with its value.",
    "answerer": "Answer as it is noted: who, what, and its value.",
}


@cache
def task_set_short(seed: int = 0) -> TaskSet:
    """What one person says in each session, and a question answered from one line of memory.

    The seed chooses who says what. For tiny models.

    Difficulty is a level from 1 to 3, the number of sessions, also as the tag `level_2`. Held-out tasks carry the tag
    `unseen_pairs`: the answer is a value that no training task gives this person.
    """
    generator = TaskGenerator(NAME, SIZES, seed)
    return TaskSet(NAME, generator.splits(_task), oracle=oracle, imperfect_oracle=imperfect_oracle)


def is_held_out(name: str, what: str, value: str) -> bool:
    """Return whether no training task gives the person this value of attribute `what`: true for one value in six."""
    return (NAMES.index(name) + ATTRIBUTES[what].values.index(value)) % 6 == 0


def _task(rng: random.Random, slot: TaskSlot) -> Task:
    level = 1 + slot.index % 3
    people = rng.sample(NAMES, level)
    facts = {name: {what: _value(rng, name, what) for what in rng.sample(list(ATTRIBUTES), FACTS)} for name in people}
    name = rng.choice(people)
    what = rng.choice(list(facts[name]))
    if slot.stratum == "unseen_pairs":
        facts[name][what] = _value(rng, name, what, held_out=True)
    answer = f"{name} {what} {facts[name][what]}"
    return Task(
        id=slot.id,
        environment=ENVIRONMENT,
        prompt="Keep a memory of what people say, session by session, and answer a question from it.",
        parameters={
            "sessions": [_session(rng, name, values) for name, values in facts.items()],
            "question": ATTRIBUTES[what].question.format(name=name),
            "needed": [answer.split()],
            "instructions": INSTRUCTIONS,
        },
        truth={"answer": answer, "facts": json.dumps(facts)},
        split=slot.split,
        tags=(f"level_{level}", *slot.tags),
        difficulty=float(level),
    )


def _value(rng: random.Random, name: str, what: str, *, held_out: bool = False) -> str:
    """Return a value of attribute `what` that a training task may give the person; if held_out, one that none gives."""
    return rng.choice([value for value in ATTRIBUTES[what].values if is_held_out(name, what, value) == held_out])


def _session(rng: random.Random, name: str, values: dict[str, str]) -> str:
    lines = [ATTRIBUTES[what].first.format(value=value) for what, value in values.items()]
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(SMALL_TALK))
    return "\n".join(f"{name}: {line}" for line in lines)


def oracle(task: Task) -> list[Message]:
    """Note all facts of each person, in the same order; search for the person, and answer."""
    return _play(task, ATTRIBUTES)


def imperfect_oracle(task: Task) -> list[Message]:
    """Play as the oracle does, but omit each attribute from the notes with probability 1/2, and answer that the value
    is unknown if its attribute was omitted.
    """
    rng = random.Random(seed_of("imperfect", task.id))
    return _play(task, [what for what in ATTRIBUTES if rng.random() >= FORGETS])


def _play(task: Task, noted: Iterable[str]) -> list[Message]:
    """Return the messages of a player that notes only these attributes."""
    calls: list[Call] = []
    who, attribute, _ = task.truth["answer"].split()
    for name, values in json.loads(task.truth["facts"]).items():
        note = " ".join(f"{what} {values[what]}" for what in noted if what in values)
        calls += [Call("add", {"text": f"{name} {note}".strip()}), Call("end_session", {})]
    calls.append(Call("search", {"query": f"{attribute} {who}"}))
    calls.append(Call("answer", {"text": task.truth["answer"] if attribute in noted else f"{who} {attribute} unknown"}))
    return [
        Message("assistant", "", (Call(call.name, call.arguments, f"call_{number}"),))
        for number, call in enumerate(calls)
    ]
