"""The task set `swe/one-line-v1`: generated repositories of one module with one wrong line, and its tests."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from difflib import unified_diff
from functools import cache
from typing import Any

from agentgym import Split, Task, TaskSet

from ..generator import TaskGenerator, TaskSlot
from .names import NAMES, UNSEEN
from .oracle import imperfect_oracle, module_of, oracle
from .templates import TEMPLATES, BugTemplate

NAME, WITH_SHELL, GIVEN = "swe/one-line-v1", "swe/one-line-shell-v1", "swe/one-line-given-v1"
SIZES = {"train": 1_200, "validation": 150, "unseen_names": 150, "unseen_templates": 150}
NUMBERS = (2, 3, 4, 5, 6, 7)
TESTS = 6
PLAIN = "without_number"
"""Tag of tasks whose right line contains no number that the issue states, so that none can be copied from there."""


@cache
def task_set(seed: int = 0) -> TaskSet:
    """Small Python modules with one line to be mended.

    The seed chooses which tasks are in it.

    Held-out tasks carry the tag `unseen_names` (templates of the training tasks, with other function names) or
    `unseen_templates` (templates that no training task has).
    """
    return _build(NAME, seed, "agentgym/swe-edit-v1")


@cache
def with_shell(seed: int = 0) -> TaskSet:
    """The tasks of `swe/one-line-v1` in `agentgym/swe-v1`, where the agent has a shell too."""
    return _build(WITH_SHELL, seed, "agentgym/swe-v1")


@cache
def given(seed: int = 0) -> TaskSet:
    """The tasks of `swe/one-line-v1` in `agentgym/swe-given-v1`, whose prompt shows the module; the agent only
    edits.
    """
    return _build(GIVEN, seed, "agentgym/swe-given-v1")


def _build(name: str, seed: int, environment: str) -> TaskSet:
    splits: dict[str, list[Task]] = {
        split: [_in_environment(environment, task) for task in tasks] for split, tasks in _generate(seed).items()
    }
    return TaskSet(name, splits, oracle=oracle, imperfect_oracle=imperfect_oracle)


def _in_environment(environment: str, task: Task) -> Task:
    parameters = {"shown": [module_of(task)]} if environment == "agentgym/swe-given-v1" else {}
    return replace(task, environment=environment, parameters={**task.parameters, **parameters})


@cache
def _generate(seed: int) -> dict[Split, list[Task]]:
    """Return the tasks of every split, shared by all three sets."""
    known = [template for template in TEMPLATES if not template.held_out]
    unseen = [template for template in TEMPLATES if template.held_out]
    draw = TaskGenerator(NAME, SIZES, seed, key=lambda task: task.prompt).draw
    return {
        "held_out": [*draw("unseen_names", _draw, known, UNSEEN), *draw("unseen_templates", _draw, unseen, UNSEEN)],
        "validation": draw("validation", _draw, known, NAMES),
        "train": draw("train", _draw, known, NAMES),
    }


def _draw(rng: random.Random, slot: TaskSlot, templates: Sequence[BugTemplate], names: Sequence[str]) -> Task | None:
    return _task(rng, slot, rng.choice(templates), rng.choice(names), rng.choice(NUMBERS))


def _task(rng: random.Random, slot: TaskSlot, template: BugTemplate, name: str, number: int) -> Task | None:
    """Make the task; return None if no drawn input reveals the bug."""
    bug_index, wrong_line = rng.choice(template.bugs)
    lines = [line.format(k=number) for line in template.lines]
    bug = wrong_line.format(k=number)
    head = f"def {name}(items):\n"
    right = head + "".join(f"    {line}\n" for line in lines)
    wrong = head + "".join(f"    {bug if index == bug_index else line}\n" for index, line in enumerate(lines))
    arguments = [template.draw(rng) for _ in range(TESTS)]
    expected = [_outcome(right, name, value) for value in arguments]
    actual = [_outcome(wrong, name, value) for value in arguments]
    failing = [index for index in range(TESTS) if expected[index] != actual[index]]
    if not failing or len(set(map(repr, arguments))) < TESTS or wrong.count(bug.strip()) != 1:
        return None
    tests = f"from {name} import {name}\n" + "".join(
        f"\n\ndef test_{index}():\n    assert {name}({value!r}) == {expected[index]}\n"
        for index, value in enumerate(arguments)
    )
    example = failing[0]
    path = f"{name}.py"
    ids = [f"test_{name}.py::test_{index}" for index in range(TESTS)]
    return Task(
        id=slot.id,
        environment="agentgym/swe-edit-v1",
        prompt=(
            f"{path}: {name}({arguments[example]!r}) gives {actual[example]}, and should give {expected[example]}. "
            f"It {template.says.format(k=number)}. One line is wrong."
        ),
        parameters={"files": {path: wrong, f"test_{name}.py": tests}},
        truth={
            "fail_to_pass": [ids[index] for index in failing],
            "pass_to_pass": [ids[index] for index in range(TESTS) if index not in failing],
            "tests": ["test_*.py"],
            "right": lines[bug_index].strip(),
            "gold": "".join(unified_diff(wrong.splitlines(True), right.splitlines(True), f"a/{path}", f"b/{path}")),
        },
        split=slot.split,
        tags=(
            template.says.split(" {")[0].replace(" ", "_"),
            *(() if "{k}" in template.lines[bug_index] + wrong_line else (PLAIN,)),
            *slot.tags,
        ),
        difficulty=float(len(lines)),
    )


def _outcome(source: str, name: str, value: Any) -> str:
    """Return the function's value or exception as text. The source comes from this package, so it is executed here."""
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    try:
        return repr(namespace[name](value))
    except (ValueError, UnboundLocalError, IndexError) as error:
        return type(error).__name__
