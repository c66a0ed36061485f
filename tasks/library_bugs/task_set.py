"""Tasks of bugs in small libraries. `benchmarks/make_library_bugs.py` made the bugs and ran their tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from difflib import unified_diff
from functools import cache
from importlib.resources import files
from typing import Any

from agentgym import Call, Message, Split, Task, TaskSet

from .libraries import LANGUAGES, SmallLibrary, libraries

VALIDATION_EVERY = 8
"""One in this many bugs of a training library is for validation."""
STRATUM = "unseen_libraries"
Script = Callable[[Sequence[Message]], Message]


@cache
def javascript() -> TaskSet:
    """Bugs in JavaScript, with Node's test runner."""
    return _build("javascript")


@cache
def c() -> TaskSet:
    """Bugs in C, built with CMake and tested with CTest."""
    return _build("c")


def _build(name: str) -> TaskSet:
    language = LANGUAGES[name]
    by_name = {library.name: library for library in libraries(language)}
    splits: dict[str, list[Task]] = {"train": [], "validation": [], "held_out": []}
    rows = json.loads(files(__package__).joinpath("bugs.json").read_text(encoding="utf-8"))
    for number, row in enumerate(row for row in rows if row["language"] == name):
        split: Split = "validation" if number % VALIDATION_EVERY == 0 else "train"
        if row["library"] in language.unseen:
            split = "held_out"
        splits[split].append(_task(by_name[row["library"]], row, f"{row['library']}/{number:04d}", split))
    return TaskSet(f"swe/{name}-v1", splits, oracle=oracle, imperfect_oracle=imperfect_oracle)


def _task(library: SmallLibrary, row: Mapping[str, Any], identifier: str, split: Split) -> Task:
    path, right = library.path, library.files[library.path]
    wrong = right.replace(row["right"], row["wrong"])
    difference = unified_diff(wrong.splitlines(True), right.splitlines(True), f"a/{path}", f"b/{path}")
    code = "\n".join(f"    {line}".rstrip() for line in library.tests[row["example"]].split("\n"))
    says = "\n".join(f"    {line}".rstrip() for line in row["says"].split("\n"))
    return Task(
        id=identifier,
        environment="agentgym/swe-edit-v1",
        prompt=f"{path} has a bug. This fails:\n\n{code}\n\nIt says:\n\n{says}\n\nFix {path}.",
        parameters={"files": {**library.files, path: wrong}, "runner": library.language.runner},
        truth={
            "fail_to_pass": list(row["failing"]),
            "pass_to_pass": [test for test in library.tests if test not in row["failing"]],
            "tests": list(library.language.tests),
            "gold": "".join(difference),
            "replace": [row["wrong"], row["right"]],
        },
        split=split,
        tags=(library.name, row["kind"], *((STRATUM,) if split == "held_out" else ())),
        difficulty=float(len(library.tests) - len(row["failing"])),
    )


def oracle(task: Task) -> Script:
    """View the file, replace the wrong lines by the right ones, submit."""
    return _player(task, *task.truth["replace"])


def imperfect_oracle(task: Task) -> Script:
    """Make the same calls, but on the first line, which is correct: add a space at its end."""
    first = task.parameters["files"][_path(task)].partition("\n")[0]
    return _player(task, f"{first}\n", f"{first} \n")


def _path(task: Task) -> str:
    return task.prompt.partition(" ")[0]


def _player(task: Task, old: str, new: str) -> Script:
    calls = [
        Call("view", {"path": _path(task)}),
        Call("replace", {"path": _path(task), "old": old, "new": new}),
        Call("submit", {}),
    ]

    def script(messages: Sequence[Message]) -> Message:
        finished_calls = sum(message.role == "tool" for message in messages)
        return Message("assistant", "", (calls[min(finished_calls, len(calls) - 1)],))

    return script
