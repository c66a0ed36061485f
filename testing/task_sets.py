"""check_task_set: tasks are plain data, can be judged, do not overlap, and are the same in every process."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import HeldOutError, Task, TaskSet, UnknownNameError, load, load_task_set

from .findings import Findings, short
from .hidden_truth import shown_truth


def check_task_set(
    task_set: str | TaskSet, *, public: Sequence[str] = (), sample: int = 200, other_process: bool = True
) -> None:
    """Check a task set: read every task, and look closely at a sample of each split.

    Building a set already checks splits, unique ids and disjoint content (by normalised words). This check adds:
    fields are valid, survive JSON, name a registered environment and do not show the truth; the held-out split is
    guarded; building the set again gives the same fingerprint, also in another process with another hash seed.

    Args:
        task_set: a registered name, or the set itself.
        public: keys of the truth that the prompt may show, in addition to the environment's `public_truth`.
        sample: number of tasks per split to look at closely.
        other_process: build the set in another process too; only for a name registered by an installed package.
    Raises: ConformanceError with every finding; UnknownNameError, TaskError or SplitLeakError if building fails.
    """
    loaded = load_task_set(task_set) if isinstance(task_set, str) else task_set
    findings = Findings(f"task set {loaded.name!r}")
    if isinstance(task_set, str) and loaded.name != task_set and not task_set.endswith((".jsonl", ".json")):
        findings.add(f"It is registered as {task_set!r} but calls itself {loaded.name!r}.")
    if not len(loaded["train"]):
        findings.add("The train split is empty.")
    environments = set()
    for split, tasks in loaded.items():
        for task in tasks:
            environments.add(task.environment)
            if task.split != split:
                findings.add(f"{task.id!r} says it is of {task.split!r}, and stands in {split!r}.")
        step = max(1, len(tasks) // sample)
        _check_tasks([tasks[index] for index in range(0, len(tasks), step)], split, public, findings)
    for name in sorted(environments):
        try:
            load("environments", name)
        except UnknownNameError as error:
            findings.add(f"Its tasks name the environment {name!r}: {error}")
    _check_guard(loaded, findings)
    _check_fingerprint(task_set, loaded, findings, other_process)
    findings.conclude()


def _check_tasks(tasks: Sequence[Task], split: str, public: Sequence[str], findings: Findings) -> None:
    leaks = []
    for task in tasks:
        if not task.id or not (task.prompt or task.messages):
            findings.add(f"A task of {split!r} lacks an id or a prompt: {short(task)}")
        if task.truth is None:
            findings.add(f"{task.id!r} has no truth: nothing can judge it.")
        if not math.isfinite(task.difficulty):
            findings.add(f"{task.id!r} has the difficulty {task.difficulty}: it is a finite number.")
        try:
            row = json.loads(json.dumps(task.to_json(), allow_nan=False))
            if _listed(Task.from_json(row).to_json()) != _listed(task.to_json()):
                findings.add(f"{task.id!r} is not the same after JSON: {short(row)}")
        except (TypeError, ValueError) as error:
            findings.add(f"{task.id!r} cannot be written as JSON: {short(error)}. Parameters and truth are plain data.")
        text = "\n".join(message.text for message in task.opening())
        if part := shown_truth(task.truth, text, public=(*public, *_public_truth(task.environment))):
            leaks.append(f"{task.id!r} ({short(part, 60)!r})")
        if task.public().truth is not None:
            findings.add(f"{task.id!r} keeps its truth in public().")
        if task.public().hints:
            findings.add(f"{task.id!r} keeps its hints in public().")
    if len(leaks) > len(tasks) / 5:  # fewer may be chance, such as an answer that is a word of the question
        findings.add(f"{len(leaks)} of {len(tasks)} prompts of {split!r} show their truth, for example {leaks[0]}.")


def _public_truth(environment: str) -> Sequence[str]:
    try:
        return getattr(load("environments", environment), "public_truth", ())
    except UnknownNameError:
        return ()  # check_task_set reports the unknown environment


def _check_guard(task_set: TaskSet, findings: Findings) -> None:
    with TaskSet.training_only():
        try:
            task_set["held_out"]
        except HeldOutError:
            return
    findings.add("A trainer can read the held-out split: task_set['held_out'] raised nothing inside training_only().")


def _check_fingerprint(given: str | TaskSet, loaded: TaskSet, findings: Findings, other_process: bool) -> None:
    """Check that the set rebuilt here, and in a process with another hash seed, has the same fingerprint."""
    expected = loaded.fingerprint()
    if loaded.fingerprint() != expected:
        findings.add("Two fingerprints of the same set differ: its tasks change when they are read.")
    if not isinstance(given, str):
        return
    factory = None if given.endswith((".jsonl", ".json")) else load("task_sets", given)
    build = getattr(factory, "__wrapped__", factory)  # the function itself, without the cache around it
    if callable(build) and not isinstance(build, TaskSet):
        rebuilt: TaskSet = build()
        if rebuilt.fingerprint() != expected:
            findings.add("Building the set twice gives two fingerprints: draw from random.Random(seed_of(...)).")
    if other_process:
        code = f"from agentgym.registry import load_task_set as load; print(load({given!r}).fingerprint())"
        environment = {**os.environ, "PYTHONHASHSEED": "12345"}
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300)
        if ran.returncode:
            findings.add(f"Another process cannot build the set: {short(ran.stderr[-400:], 400)}")
        elif (theirs := ran.stdout.split()[-1]) != expected:
            findings.add(
                f"The fingerprint is {expected} here and {theirs} in another process: the set depends on the order "
                "of a Python set or on hash()."
            )


def _listed(value: Any) -> Any:
    """Convert tuples to lists, as in JSON."""
    if isinstance(value, Mapping):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, (list, tuple)) else value
