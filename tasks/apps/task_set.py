"""Generate the tasks over one to four apps: the request, the calls that solve it, and the resulting changes."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

from agentgym import Task, TaskSet, load

from ..generator import TaskGenerator, TaskSlot
from .oracle import (
    code_oracle,
    hasty_oracle,
    hasty_team_oracle,
    imperfect_code_oracle,
    imperfect_oracle,
    oracle,
    practised_oracle,
    team_oracle,
)
from .pieces import ACTIONS, QUESTIONS, SHORT, SINKS, Draft, Piece

NAME, NAME_CODE = "apps/year-v1", "apps/year-code-v1"
NAME_SHORT, NAME_TEAM = "apps/short-v1", "apps/team-v1"
ENVIRONMENT, RECORDS = "agentgym/apps-v1", "apps/year"
SIZES = {"train": 2_400, "validation": 150, "unseen_records": 150, "unseen_apps": 150, "unseen_compositions": 150}
SIZES_SHORT = {"train": 4_500, "validation": 120, "unseen_records": 360}
SEEDS = {"train": range(40), "validation": range(40, 44), "held_out": range(44, 52)}
"""Seeds of the records of each split. No two splits share a seed."""
HELD_OUT_APPS = frozenset({"files", "music"})
HELD_OUT_PAIRS = frozenset(
    {
        ("bank", "calendar"),
        ("shop", "mail"),
        ("calendar", "notes"),
        ("contacts", "bank"),
        ("mail", "calendar"),
        ("notes", "bank"),
    }
)
"""Pairs of apps that only held-out tasks combine: first the app that is asked, then the app that stores its answer."""


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Tasks over one to four apps and a year of somebody's records, for one call at a time.

    The seed chooses which tasks are in it.

    Difficulty is a level from 1 to 3, also as the tag `level_2`. All held-out tasks have records that no training task
    has. They carry one of the tags `unseen_records` (nothing else is new), `unseen_apps` (files or music, which no
    training task needs) or `unseen_compositions` (the answer of one app is stored in another, in pairs of apps that no
    training task has).
    """
    generator = TaskGenerator(NAME, SIZES, seed)
    return TaskSet(NAME, generator.splits(_task), oracle=oracle, imperfect_oracle=imperfect_oracle)


@cache
def task_set_code(seed: int = 0) -> TaskSet:
    """The tasks of `apps/year-v1` for the environment in which code calls the apps."""
    splits = {
        split: [replace(task, environment="agentgym/apps-code-v1") for task in tasks]
        for split, tasks in task_set(seed).items()
    }
    return TaskSet(NAME_CODE, splits, oracle=code_oracle, imperfect_oracle=imperfect_code_oracle)


@cache
def task_set_short(seed: int = 0) -> TaskSet:
    """One to three jobs of `pieces.SHORT`, in different apps, for tiny models. The level is the number of jobs.

    The oracles of this set know the APIs and read no documentation, which keeps episodes short.

    Held-out tasks carry the tag `unseen_records`.
    """
    generator = TaskGenerator(NAME_SHORT, SIZES_SHORT, seed, key=lambda task: task.content_key(numbered=False))
    splits = generator.splits(_short_task)
    return TaskSet(NAME_SHORT, splits, oracle=practised_oracle, imperfect_oracle=hasty_oracle)


@cache
def task_set_team(seed: int = 0) -> TaskSet:
    """The tasks of `apps/short-v1` that have two or three jobs, for a planner who hands them to executors."""
    splits = {
        split: [replace(task, environment="agentgym/apps-team-v1") for task in tasks if "level_1" not in task.tags]
        for split, tasks in task_set_short(seed).items()
    }
    return TaskSet(NAME_TEAM, splits, oracle=team_oracle, imperfect_oracle=hasty_team_oracle)


def _task(rng: random.Random, slot: TaskSlot) -> Task | None:
    level = 1 + slot.index % 3
    if slot.stratum == "unseen_compositions" and level == 1:
        level = 2  # a composition needs a question and a change
    draft, seed = _begun(rng, slot)
    if (written := _written(draft, level, slot.stratum)) is None:
        return None
    prompt, answer, apps = written
    if not (level - 1 <= len(apps) <= 4) or (slot.stratum == "unseen_apps") != bool(HELD_OUT_APPS & set(apps)):
        return None
    if answer is not None and answer.casefold() in prompt.casefold():
        return None
    return _finished(draft, slot, seed, level, prompt, answer)


def _short_task(rng: random.Random, slot: TaskSlot) -> Task | None:
    level = 1 + slot.index % 3
    draft, seed = _begun(rng, slot)
    jobs: list[Piece] = []
    for job in rng.sample(SHORT, len(SHORT)):
        if not any(set(job.apps) & set(other.apps) for other in jobs):
            jobs.append(job)
    if len(jobs) < level:
        return None
    written: list[tuple[str, int]] = []
    for job in jobs[:level]:
        before = len(draft.steps)
        written.append((job.write(draft), len(draft.steps) - before))
    task = _finished(draft, slot, seed, level, " ".join(sentence for sentence, _ in written), None)
    return replace(task, truth={**task.truth, "jobs": json.dumps(written)})


def _begun(rng: random.Random, slot: TaskSlot) -> tuple[Draft, int]:
    """Return a draft over records of the split, and the seed of these records."""
    seeds = SEEDS[slot.split]
    seed = seeds[rng.randrange(len(seeds))]
    environment = load("environments", ENVIRONMENT)()
    environment.open_records(RECORDS, seed)
    return Draft(rng, environment), seed


def _finished(draft: Draft, slot: TaskSlot, seed: int, level: int, prompt: str, answer: str | None) -> Task:
    """Make a task of a draft to which all pieces have been added."""
    changes = draft.environment.store.changes()
    truth: dict[str, Any] = {
        "changes": sorted(changes),
        "steps": json.dumps(draft.steps),
        "difference": json.dumps([changes[digest] for digest in sorted(changes)]),
    }
    if answer is not None:
        truth["answer"] = answer
    return Task(
        id=slot.id,
        environment=ENVIRONMENT,
        prompt=prompt,
        parameters={"records": RECORDS, "seed": seed, "goal": sorted(changes)},
        truth=truth,
        split=slot.split,
        tags=(f"level_{level}", *slot.tags),
        difficulty=float(level),
    )


def _written(draft: Draft, level: int, stratum: str) -> tuple[str, str | None, list[str]] | None:
    """Draw pieces, and do their jobs in the draft.

    Returns: the prompt; the answer if it asks a question; the needed apps. None if a drawn question has an answer that
        no app may store in this stratum.
    """
    usable = partial(_usable, apps_allowed=stratum == "unseen_apps")
    rng = draft.rng
    question = rng.choice(usable(QUESTIONS))
    if level == 1:
        if rng.random() < 0.5:
            what, value = question.write(draft)
            return f"What is {what}?", value, [*question.apps]
        action = rng.choice(usable(ACTIONS))
        return action.write(draft), None, [*action.apps]
    sinks = [piece for piece in usable(SINKS) if _allowed(question, piece, stratum)]
    if not sinks:
        return None
    sink, answer = rng.choice(sinks), None
    sentences, apps = [sink.write(draft, *question.write(draft))], {*question.apps, *sink.apps}
    if level == 3:
        second = rng.choice([piece for piece in usable((*ACTIONS, *QUESTIONS)) if not apps & set(piece.apps)])
        apps |= set(second.apps)
        if second in ACTIONS:
            sentences.append(second.write(draft))
        else:
            what, answer = second.write(draft)
            sentences.append(f"And what is {what}?")
    return " ".join(sentences), answer, sorted(apps)


def _usable(pieces: Sequence[Piece], apps_allowed: bool) -> list[Piece]:
    """Return the pieces without held-out apps, unless these are allowed."""
    return [piece for piece in pieces if apps_allowed or not HELD_OUT_APPS & set(piece.apps)]


def _allowed(question: Piece, sink: Piece, stratum: str) -> bool:
    """Return whether tasks of a stratum may store the question's answer by this change."""
    pair = question.apps[0], sink.apps[0]
    return pair[0] != pair[1] and (pair in HELD_OUT_PAIRS) == (stratum == "unseen_compositions")
