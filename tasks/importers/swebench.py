"""Read instances of SWE-bench and similar sets from a file that the user has. Repositories come from local mirrors, or
from source distributions on the package index.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import cache, partial
from pathlib import Path
from shutil import which
from typing import Any

from agentgym import Call, Message, Split, Task, TaskError, TaskSet, load
from agentgym.sandbox import rootfs

from . import swebench_django as django
from .items import read_items, report_left_out
from .swebench_environments import PublishedEnvironment, published_environment
from .swebench_ids import pytest_ids
from .swebench_patches import files_in, reversed_patch
from .swebench_rows import Instance, instance_of
from .swebench_stand_ins import DJANGO, FIXED, STANDS_IN

NAME, ENVIRONMENT = "swe/swebench-v1", "agentgym/swe-v1"
MIRRORS = "AGENTGYM_REPOSITORIES"
OLDEST = ".".join(map(str, rootfs.OLDEST_PYTHON))
OLD_PYTEST = "pytest<8"
"""The pytest for published environments that name no version: newer versions reject nose-style tests."""
COMPILED_MIB = {"memory_mib": 2048, "disk_mib": 2048}
"""Limits of instances with an environment: numerical packages are large."""

Progress = Callable[[int, int, int], None]


def load_swebench(
    path: str | Path,
    *,
    split: Split = "held_out",
    mirrors: str | Path | None = None,
    environments: bool = False,
    python: str = "",
    at_once: int = 2,
    progress: Progress = lambda done, total, left_out: None,
) -> TaskSet:
    """The instances of a file as tasks of `agentgym/swe-v1`, held out by default.

    An instance needs its repository as a git clone (bare or not) in the folder of mirrors, named `owner__name` or
    `name`. If there is none, a known source distribution may replace it; such a task has the tag `stand_in`. A
    LeftOutWarning names the instances that are left out: those with neither, and those whose tests are neither for
    pytest nor Django's. The truth has the gold patch and the test patch. The agent sees neither of them, and no commit
    after the base commit.

    Args:
        path: JSON lines, or a JSON array, in one of the formats of `swebench_rows`.
        split: the split of the tasks. A public set is for measuring: train on it only if you never report it.
        mirrors: the folder of clones; by default $AGENTGYM_REPOSITORIES.
        environments: build an environment for each instance: the published version of Python, and the packages that
            pip resolves for the commit. This needs a package index, and runs the build of the repositories on this
            host. An instance whose environment cannot be built is left out. If false, tasks run with the host's Python
            and pytest, and without other packages.
        python: a version of Python for all instances, in place of the published ones: `here` for the running one.
        at_once: number of environments built at the same time. `progress`: called with the number of finished
            instances, the number of all instances, and the number of instances left out.
    Raises: TaskError naming the file, the item and its fault, or that no instance can be played.
    """
    path = Path(path)
    folder = Path(mirrors or os.environ.get(MIRRORS) or "repositories").absolute()
    instances = [instance_of(row, f"{path}, item {number}") for number, row in enumerate(read_items(path))]
    make = partial(_task, folder=folder, split=split, environments=environments, python=python)
    results: dict[str, Task | str] = {}
    with ThreadPoolExecutor(max(at_once, 1)) as pool:
        futures = {pool.submit(_or_reason, make, instance): instance.id for instance in instances}
        for done, future in enumerate(as_completed(futures), 1):
            results[futures[future]] = future.result()
            progress(done, len(instances), sum(isinstance(result, str) for result in results.values()))
    ordered = {instance.id: results[instance.id] for instance in instances}
    tasks = [task for task in ordered.values() if isinstance(task, Task)]
    reasons = {name: reason for name, reason in ordered.items() if isinstance(reason, str)}
    report_left_out(path, reasons, len(tasks))
    return TaskSet(NAME, {split: tasks}, oracle=submit_gold)


def submit_gold(task: Task) -> list[Message]:
    """Return the messages that apply the gold patch, and submit it."""
    calls = (Call("patch", {"diff": task.truth["gold"]}), Call("submit", {}))
    return [Message("assistant", "", (call,)) for call in calls]


def _or_reason(make: Callable[[Instance], Task], instance: Instance) -> Task | str:
    try:
        return make(instance)
    except TaskError as error:
        return str(error)


def _task(instance: Instance, *, folder: Path, split: Split, environments: bool, python: str) -> Task:
    """Return the task of an instance. Raises: TaskError saying why it does not become a task."""
    is_django = instance.repo == django.REPO
    clone = next((clone for clone in _clones(folder, instance.repo) if clone.is_dir()), None)
    stand_in = (STANDS_IN if environments else DJANGO).get(instance.id)
    if clone is None and stand_in is None:
        raise TaskError(f"there is no clone of {instance.repo} in {folder}; name a folder of clones by ${MIRRORS}")
    if not instance.issue.strip():
        raise TaskError("it has no issue text")
    test_files = files_in(instance.tests)
    if is_django:
        ids: Callable[..., list[str]] = django.unittest_ids
    else:
        ids = partial(pytest_ids, files=test_files, text_of=cache(partial(_text_of, instance, clone)))
    failing = ids(instance.failing)
    if not failing:
        raise TaskError("it has no tests for pytest")
    repository = f"{clone}@{instance.commit}" if clone else str(stand_in)
    parameters: dict[str, Any] = {"repository": repository}
    taken_back = (instance.fix, instance.tests) if clone is None and instance.id in FIXED else ()
    patches = [instance.bug, *map(reversed_patch, taken_back)]
    if environments:
        parameters |= _environment(instance, repository, python)
    elif is_django:
        parameters["packages"] = django.PACKAGES
    if is_django:
        parameters |= django.PARAMETERS
        patches.append(django.PATCH)
    if patch := "".join(patches):
        parameters["patch"] = patch
    return Task(
        id=instance.id,
        environment=ENVIRONMENT,
        prompt=instance.issue,
        parameters=parameters,
        truth={
            "fail_to_pass": failing,
            "pass_to_pass": ids(instance.passing),
            "tests": ["tests/*", "*/tests/*", "test_*.py", "*/test_*.py", *test_files],
            "test_patch": instance.tests,
            "gold": instance.fix,
            **({"files": django.FILES} if is_django else {}),
        },
        split=split,
        tags=(instance.repo,) if clone else (instance.repo, "stand_in"),
    )


def _environment(instance: Instance, repository: str, python: str) -> dict[str, Any]:
    """Return the parameters of an instance's environment, with resolved packages. Raises: TaskError."""
    published = published_environment(instance.repo, instance.version) or PublishedEnvironment("")
    named = instance.python or published.python
    requirements = instance.requirements or tuple(published.requirements.split())
    if published.python and instance.repo != "pytest-dev/pytest" and not any("pytest" in name for name in requirements):
        requirements += (OLD_PYTEST,)
    try:
        parameters: dict[str, Any] = load("environments", ENVIRONMENT).environment_of(
            repository,
            python={"here": "", "": _nearest(named)}.get(python, python),
            requirements=requirements,
            files=instance.files or (() if instance.repo == django.REPO else published.files),
            extras=instance.extras or published.extras,
            version=instance.version,
        )
    except TaskError as error:
        if named and python == "" and _nearest(named) != named:
            raise TaskError(
                f"It needs Python {named}, and failed with {_nearest(named)}, the nearest that is available: {error}"
            ) from error
        raise
    return {**parameters, **COMPILED_MIB}


def _nearest(python: str) -> str:
    """Return the supported Python version of sandboxes that is nearest to the given one."""
    match = re.fullmatch(r"(\d+)\.(\d+)", python)
    return OLDEST if match and (int(match[1]), int(match[2])) < rootfs.OLDEST_PYTHON else python


def _text_of(instance: Instance, clone: Path | None, path: str) -> str:
    """Return roughly the text of a test file after the test patch, enough to see which tests it defines."""
    command = ["git", "-C", str(clone), "-c", "safe.directory=*", "show", f"{instance.commit}:{path}"]
    output = subprocess.run(command, capture_output=True, check=False) if clone is not None and which("git") else None
    before = output.stdout.decode("utf-8", "replace") if output and output.returncode == 0 else ""
    section = re.split(r"^diff --git ", instance.tests, flags=re.M)
    added = (part for part in section if f" b/{path}\n" in part[: part.find("\n") + 1])
    return before + "\n".join(line[1:] for part in added for line in part.splitlines() if line.startswith(("+", " ")))


def _clones(folder: Path, repo: str) -> list[Path]:
    names = (repo.replace("/", "__"), repo.rpartition("/")[2])
    return [folder / f"{name}{ending}" for name in names for ending in ("", ".git")]
