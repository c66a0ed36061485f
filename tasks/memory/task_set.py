"""Generate the sessions: who says what, which fact is asked for, and the ideal memory after each session."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from agentgym import Call, Message, Task, TaskSet, seed_of

from ..generator import TaskGenerator, TaskSlot
from .words import ALLERGIES, ATTRIBUTES, KIN, NAMES, NEW_ATTRIBUTES, NEW_NAMES, NOTHING, PETS, SMALL_TALK, Attribute

NAME, ENVIRONMENT = "memory/people-v1", "agentgym/memory-v1"
SIZES = {"train": 6000, "validation": 120, "unseen_people": 480, "unseen_attributes": 120, "unseen_compositions": 150}
KINDS = ("fact", "changed", "counted", "related", "withdrawn", "allergic")
SESSIONS = {"fact": 2, "allergic": 2, "changed": 3, "counted": 3, "withdrawn": 3, "related": 4}
"""The number of sessions by kind of task.

All sessions of a task together also have two to four facts that the question does not need.
"""
FORGETS = 1 / 2
"""The probability that the imperfect oracle leaves a note out."""


@cache
def task_set(seed: int = 0) -> TaskSet:
    """What people say of themselves over two to four sessions, and a question answered from memory.

    The seed chooses who says what.

    Tasks carry their kind as a tag. Held-out tasks carry the tag `unseen_people` (names that no training task has),
    `unseen_attributes` (questions about an attribute that no training task asks for) or `unseen_compositions` (about a
    changed attribute of a related person; training tasks ask for changed attributes and for related persons, but never
    both in one). Difficulty is the number of sessions.
    """
    generator = TaskGenerator(NAME, SIZES, seed)
    return TaskSet(NAME, generator.splits(_task), oracle=oracle, imperfect_oracle=imperfect_oracle)


@dataclass(slots=True)
class SessionWriter:
    """The sessions of a task under construction.

    Attributes:
        lines: the lines of each session.
        notes: for each session, the notes that a memory should hold: key and text.
        latest: the last note of each key.
    """

    rng: random.Random
    people: list[str]
    lines: list[list[str]]
    notes: list[list[tuple[str, str]]]
    latest: dict[str, str] = field(default_factory=dict)

    def say(self, session: int, speaker: str, line: str, key: str, note: str) -> None:
        self.lines[session].append(f"{speaker}: {line}")
        self.notes[session].append((key, note))
        self.latest[key] = note

    def mention(self, session: int, name: str, kind: str, attribute: Attribute, value: str) -> None:
        """Add a line in which the person, or another person, says a value of an attribute."""
        key, parts = f"{name} {kind}", {"name": name, "value": value}
        if self.rng.random() < 1 / 3:
            speaker = self.rng.choice([person for person in self.people if person != name])
            line = attribute.reported
        else:
            speaker, line = name, attribute.changed if key in self.latest else attribute.first
        self.say(session, speaker, line.format(**parts), key, attribute.noted.format(**parts))

    def texts(self) -> list[str]:
        """Return the text of each session, into which two to four lines of small talk are inserted.

        Afterwards the notes are in the order of their lines.
        """
        texts = []
        for number, lines in enumerate(self.lines):
            talk = self.rng.sample(SMALL_TALK, self.rng.randrange(2, 5))
            small_talk = [(f"{self.rng.choice(self.people)}: {line}", None) for line in talk]
            noted = [*zip(lines, self.notes[number], strict=True), *small_talk]
            self.rng.shuffle(noted)
            texts.append("\n".join(line for line, _ in noted))
            self.notes[number] = [note for _, note in noted if note is not None]
        return texts


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question, its answer, the keys of the notes that it needs, and the words in each note that matter for the
    answer.
    """

    text: str
    answer: str
    keys: tuple[str, ...]
    needed: tuple[tuple[str, ...], ...]


def _task(rng: random.Random, slot: TaskSlot) -> Task:
    names = NEW_NAMES if slot.stratum == "unseen_people" else NAMES
    attributes = NEW_ATTRIBUTES if slot.stratum == "unseen_attributes" else ATTRIBUTES
    kind = KINDS[slot.index % len(KINDS)]
    if slot.stratum == "unseen_attributes":
        kind = ("fact", "changed", "related")[slot.index % 3]
    elif slot.stratum == "unseen_compositions":
        kind = "related"
    people = rng.sample(names, 4)
    count = SESSIONS[kind]
    sessions = SessionWriter(rng, people, [[] for _ in range(count)], [[] for _ in range(count)])
    question = _ask(sessions, kind, attributes, changed=slot.stratum == "unseen_compositions")
    _say_more(sessions, question)
    return Task(
        id=slot.id,
        environment=ENVIRONMENT,
        prompt="Keep a memory of what people say, session by session, and answer a question from it.",
        parameters={
            "sessions": sessions.texts(),
            "question": question.text,
            "needed": [list(fact) for fact in question.needed],
        },
        truth={"answer": question.answer, "keys": list(question.keys), "notes": json.dumps(sessions.notes)},
        split=slot.split,
        tags=(kind, *slot.tags),
        difficulty=float(count),
    )


def _ask(sessions: SessionWriter, kind: str, attributes: dict[str, Attribute], *, changed: bool) -> AskedQuestion:
    """Add the lines with the facts that a question of this kind needs."""
    rng, name, last = sessions.rng, sessions.people[0], len(sessions.lines) - 1
    if kind in ("withdrawn", "allergic"):
        return _allergy(sessions, name, withdrawn=kind == "withdrawn")
    if kind == "counted":
        return _count(sessions, name)
    what = rng.choice(list(attributes))
    attribute = attributes[what]
    first, second = rng.sample(attribute.values, 2)
    if kind == "fact":
        sessions.mention(rng.randrange(last), name, what, attribute, first)
        return AskedQuestion(attribute.question.format(name=name), first, (f"{name} {what}",), ((name, first),))
    if kind == "changed":
        sessions.mention(rng.randrange(last), name, what, attribute, first)
        sessions.mention(last, name, what, attribute, second)
        return AskedQuestion(attribute.question.format(name=name), second, (f"{name} {what}",), ((name, second),))
    kin, other = rng.choice(KIN), sessions.people[1]
    sessions.mention(0, other, what, attribute, first)
    key = f"{name} {kin}"
    sessions.say(1 + rng.randrange(last - 1), name, f"My {kin} is {other}.", key, f"{name}'s {kin} is {other}")
    if changed:
        sessions.mention(last, other, what, attribute, second)
    value = second if changed else first
    text = attribute.question.format(name=f"{name}'s {kin}")
    return AskedQuestion(text, value, (key, f"{other} {what}"), ((name, kin, other), (other, value)))


def _allergy(sessions: SessionWriter, name: str, *, withdrawn: bool) -> AskedQuestion:
    rng, key, last = sessions.rng, f"{name} allergy", len(sessions.lines) - 1
    value = rng.choice(ALLERGIES)
    line = f"I cannot stand {value}, I am allergic to it."
    sessions.say(rng.randrange(last), name, line, key, f"{name} is allergic to {value}")
    if withdrawn:
        was_wrong = f"It turned out that I am not allergic to {value} at all."
        value = NOTHING
        sessions.say(last, name, was_wrong, key, f"{name} is allergic to {value}")
    return AskedQuestion(f"What is {name} allergic to?", value, (key,), ((name, "allergic", value),))


def _count(sessions: SessionWriter, name: str) -> AskedQuestion:
    rng, pets, last = sessions.rng, sessions.rng.choice(PETS), len(sessions.lines) - 1
    key, had, change = f"{name} {pets}", rng.randrange(5, 10), rng.choice((-3, -2, 2, 3, 4))
    sessions.say(rng.randrange(last), name, f"I keep {had} {pets}.", key, f"{name} keeps {had} {pets}")
    moved = f"I bought {change} more {pets}." if change > 0 else f"I sold {-change} of my {pets}."
    sessions.say(last, name, moved, key, f"{name} keeps {had + change} {pets}")
    count = str(had + change)
    return AskedQuestion(f"How many {pets} does {name} keep?", count, (key,), ((name, count, pets),))


def _say_more(sessions: SessionWriter, question: AskedQuestion) -> None:
    """Add two to four facts of the same people that the question does not ask for."""
    rng = sessions.rng
    for _ in range(rng.randrange(2, 5)):
        name, what = rng.choice(sessions.people), rng.choice(list(ATTRIBUTES))
        if f"{name} {what}" in {*question.keys, *sessions.latest}:
            continue
        attribute = ATTRIBUTES[what]
        sessions.mention(rng.randrange(len(sessions.lines)), name, what, attribute, rng.choice(attribute.values))


def oracle(task: Task) -> list[Message]:
    """Note every fact, rewrite changed facts, then search and answer."""
    return _play(task, lambda: True)


def imperfect_oracle(task: Task) -> list[Message]:
    """Play as the oracle does, but omit each note with probability 1/2, and answer as one who does not know what it
    says.
    """
    rng = random.Random(seed_of("imperfect", task.id))
    return _play(task, lambda: rng.random() >= FORGETS)


def _play(task: Task, notes_it: Callable[[], bool]) -> list[Message]:
    """Return the messages of a player that notes a fact if `notes_it` returns true."""
    calls: list[Call] = []
    numbers: dict[str, int] = {}
    held: dict[str, str] = {}
    last = dict(note for session in json.loads(task.truth["notes"]) for note in session)
    for session in json.loads(task.truth["notes"]):
        for key, text in session:
            if not notes_it():
                continue
            held[key] = text
            if key in numbers:
                calls.append(Call("update", {"entry": numbers[key], "text": text}))
            else:
                numbers[key] = len(numbers) + 1
                calls.append(Call("add", {"text": text}))
        calls.append(Call("end_session", {}))
    knows = all(held.get(key) == last[key] for key in task.truth["keys"])
    calls += [Call("search", {"query": key}) for key in task.truth["keys"]]
    calls.append(Call("answer", {"text": task.truth["answer"] if knows else "I do not know"}))
    return [
        Message("assistant", "", (Call(call.name, call.arguments, f"call_{number}"),))
        for number, call in enumerate(calls)
    ]
