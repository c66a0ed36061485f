"""Read SWE-bench-format instances from a file that the user has; their repositories come from local mirrors, or a
source distribution of the package index."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentgym import Split, Task, TaskError, TaskSet

from . import swebench_django as django
from .items import read_items

NAME, ENVIRONMENT = "swe/swebench-v1", "agentgym/swe-v1"
MIRRORS = "AGENTGYM_REPOSITORIES"
TEXTS = ("instance_id", "repo", "base_commit", "problem_statement", "patch", "test_patch")
PYTEST_ID = re.compile(r"[^\s:]+\.py::\S+")


def load_swebench(path: str | Path, *, split: Split = "held_out", mirrors: str | Path | None = None) -> TaskSet:
    """The instances of a SWE-bench-format file as tasks of `agentgym/swe-v1`, held out unless asked otherwise.

    An instance needs its repository as a git clone (bare or not) in the folder of mirrors, named `owner__name` or
    `name`. Where there is none, a source distribution may stand in, named by its parameters: such a task has the tag
    `stand_in`. Instances with neither, and those whose tests are neither pytest's nor Django's, are left out, and a
    warning names them. Gold patch and test patch go into the truth: the agent sees neither, and no commit after the
    base.

    Args:
        path: JSON lines, or a JSON array.
        split: where the tasks go. A public set is for measuring: train on it only if you never report it.
        mirrors: the folder of clones; by default $AGENTGYM_REPOSITORIES.
    Raises: TaskError naming the file, the item and what is wrong with it, or that no instance can be played.
    """
    path = Path(path)
    folder = Path(mirrors or os.environ.get(MIRRORS) or "repositories")
    tasks: list[Task] = []
    left_out: dict[str, list[str]] = {}
    for number, row in enumerate(read_items(path)):
        where = f"{path}, item {number}"
        if wrong := [name for name in TEXTS if not isinstance(row.get(name), str)]:
            raise TaskError(
                f"{where}: the field {wrong[0]!r} is no text. An instance has {', '.join(TEXTS)} and tests."
            )
        clone = next((c for c in _clones(folder, row["repo"]) if c.is_dir()), None)
        stand_in = django.STANDS_IN.get(row["instance_id"])
        ids = django.unittest_ids if row["repo"] == django.REPO else pytest_ids
        fail_to_pass = ids(_tests(row.get("FAIL_TO_PASS"), where))
        if clone is None and stand_in is None:
            left_out.setdefault(f"no clone of {row['repo']} in {folder}", []).append(row["instance_id"])
        elif not fail_to_pass:
            left_out.setdefault("its tests are not pytest's", []).append(row["instance_id"])
        else:
            pass_to_pass = ids(_tests(row.get("PASS_TO_PASS", []), where))
            repository = f"{clone}@{row['base_commit']}" if clone else str(stand_in)
            tasks.append(_task(row, repository, fail_to_pass, pass_to_pass, split))
    reasons = "; ".join(f"{', '.join(names)}: {why}" for why, names in left_out.items())
    if not tasks:
        raise TaskError(
            f"{path}: no instance can be played here. {reasons}. Clone the repositories into a folder and name it by "
            f"${MIRRORS}."
        )
    if left_out:
        warnings.warn(f"{path}: left out: {reasons}.", stacklevel=2)
    return TaskSet(NAME, {split: tasks})


def pytest_ids(names: Sequence[str]) -> list[str]:
    """The names that are pytest ids; anything else that was recorded among them is dropped.

    An id that was cut at its first blank stays cut: the judge takes it for all tests that begin so.
    """
    return list(dict.fromkeys(test for test in names if PYTEST_ID.fullmatch(test)))


def _tests(value: Any, where: str) -> list[str]:
    """The tests in a field, which is a list or a list as JSON text."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise TaskError(f"{where}: {value[:60]!r} is no list of tests.") from error
    if not isinstance(value, list) or not all(isinstance(test, str) for test in value):
        raise TaskError(f"{where}: {value!r:.60} is no list of tests.")
    return value


def _task(
    row: Mapping[str, Any], repository: str, fail_to_pass: list[str], pass_to_pass: list[str], split: Split
) -> Task:
    is_django = row["repo"] == django.REPO
    test_files = re.findall(r"^\+\+\+ b/(\S+)", row["test_patch"], re.M)
    return Task(
        id=row["instance_id"],
        environment=ENVIRONMENT,
        prompt=row["problem_statement"],
        parameters={"repository": repository, **(django.PARAMETERS if is_django else {})},
        truth={
            "fail_to_pass": fail_to_pass,
            "pass_to_pass": pass_to_pass,
            "tests": ["tests/*", "*/tests/*", "test_*.py", "*/test_*.py", *test_files],
            "test_patch": row["test_patch"],
            "gold": row["patch"],
            **({"files": django.FILES} if is_django else {}),
        },
        split=split,
        tags=(row["repo"],) if "@" in repository else (row["repo"], "stand_in"),
    )


def _clones(folder: Path, repo: str) -> list[Path]:
    names = (repo.replace("/", "__"), repo.rpartition("/")[2])
    return [folder / f"{name}{ending}" for name in names for ending in ("", ".git")]
