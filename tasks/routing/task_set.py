"""Generate the questions, and the models that may be asked."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cache
from string import ascii_uppercase
from typing import Any

from agentgym import Call, Message, Task, TaskSet, load, seed_of

from ..generator import TaskGenerator, TaskSlot

NAME, ENVIRONMENT = "routing/experts-v1", "agentgym/experts-v1"
SIZES = {"train": 4000, "validation": 120, "unseen_models": 300, "unseen_questions": 300}
KINDS = {"easy": 1.0, "one_expert": 2.0, "several_experts": 3.0, "no_expert": 3.0}
"""Kinds of tasks, with their difficulty."""
OFFERED = 5
NEW = 5
"""One in this many subjects occurs in held-out questions only."""


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Short questions of six fields, and five models that may be asked, each at its price.

    The seed chooses the questions and the models that may be asked.

    Tasks carry their kind and the field of the question as tags. Held-out tasks carry the tag `unseen_models` (no model
    that may be asked occurs in a training task) or `unseen_questions` (about subjects that no training task has).
    """
    generator = TaskGenerator(NAME, SIZES, seed)
    return TaskSet(NAME, generator.splits(_task), oracle=oracle, imperfect_oracle=imperfect_oracle)


def _task(rng: random.Random, slot: TaskSlot) -> Task | None:
    environment: Any = load("environments", ENVIRONMENT)
    kind = [*KINDS][slot.index % len(KINDS)]
    skills = [name for name in environment.fields if name != environment.easy_field]
    name = environment.easy_field if kind == "easy" else rng.choice(skills)
    field = environment.fields[name]
    subjects = [each for index, each in enumerate(field.subjects) if (index % NEW == NEW - 1) == _asks_new(slot)]
    question = field.ask(rng, rng.choice(subjects))
    experts = [each for each in environment.experts.values() if each.unseen == (slot.stratum == "unseen_models")]
    offered = _offer(rng, experts, kind, name)
    if offered is None:
        return None
    answers = [expert.answer(question) for expert in offered if expert.skills >= {name} or kind == "easy"]
    return Task(
        id=slot.id,
        environment=ENVIRONMENT,
        prompt=question,
        parameters={"models": [expert.name for expert in offered]},
        truth={"answer": answers[0]},
        split=slot.split,
        tags=(kind, name, *slot.tags),
        difficulty=KINDS[kind],
    )


def _asks_new(slot: TaskSlot) -> bool:
    return slot.stratum == "unseen_questions"


def _offer(rng: random.Random, experts: Sequence[Any], kind: str, field: str) -> list[Any] | None:
    """Choose the models of a task, of which as many know the field as the task's kind requires; None if this is
    impossible.
    """
    general = [each for each in experts if len(each.skills) > 2 and (kind == "easy" or field in each.skills)]
    special = [each for each in experts if len(each.skills) <= 2]
    able = [each for each in special if field in each.skills]
    count = {"one_expert": 1, "several_experts": rng.choice((2, 2, 3))}.get(kind, 0)
    others = special if kind == "easy" else [each for each in special if field not in each.skills]
    if len(able) < count or not general:
        return None
    chosen = [*rng.sample(able, count), *rng.sample(others, OFFERED - 1 - count), rng.choice(general)]
    rng.shuffle(chosen)
    return chosen


def oracle(task: Task) -> list[Message]:
    """Answer easy questions directly; otherwise note which models know the field, and ask the cheapest of them."""
    if task.tags[0] == "easy":
        return [_call("answer", text=task.truth["answer"])]
    field = task.tags[1]
    able = {letter: expert.price for letter, expert in _offered_experts(task).items() if field in expert.skills}
    notes = ", ".join(f"{letter} {price:g}" for letter, price in able.items())
    return _ask(task, min(able, key=able.__getitem__), f"{field}: {notes}")


def imperfect_oracle(task: Task) -> list[Message]:
    """Ask an arbitrary model and repeat its answer, but answer every second easy question directly."""
    rng = random.Random(seed_of("imperfect", task.id))
    if task.tags[0] == "easy" and rng.random() < 1 / 2:
        return oracle(task)
    return _ask(task, rng.choice([*_offered_experts(task)]))


def _offered_experts(task: Task) -> dict[str, Any]:
    experts: Mapping[str, Any] = load("environments", ENVIRONMENT).experts
    return {letter: experts[name] for letter, name in zip(ascii_uppercase, task.parameters["models"], strict=False)}


def _ask(task: Task, letter: str, thought: str = "") -> list[Message]:
    expert = _offered_experts(task)[letter]
    return [_call("route", thought, model=letter), _call("answer", text=expert.answer(task.prompt))]


def _call(name: str, thought: str = "", **arguments: str) -> Message:
    return Message("assistant", thought, (Call(name, arguments, name),))
