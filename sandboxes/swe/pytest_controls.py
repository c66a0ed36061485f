"""Puts canaries and controls (`controls.py`) into the test files of a judge's sandbox, if pytest runs them."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from agentgym.sandbox import Sandbox

from .controls import WORDS, canary, canary_name, control_of, unseen
from .repository import ROOT

MAX_CANARIES, MAX_SOURCE = 6, 2**20
KEPT_CONTROLS = 3
"""Number of test functions that must keep passing and become controls, in addition to the tests to fix."""


async def write_pytest_controls(
    sandbox: Sandbox, truth: Mapping[str, Any], seed: int, seen: Mapping[str, str], *, single: bool = False
) -> dict[str, str]:
    """Turn the tests to fix, and some of those that must keep passing, into controls; if possible, only tests that the
    agent has not seen. `seen`: test files as the agent had them, by path. `single`: turn only one test
    function into controls, of those to fix.
    Returns: a map from the controls' new ids to their old ids."""
    rng = random.Random(seed)
    tests = list(truth["fail_to_pass"])
    sources = await python_sources(sandbox, tests)
    others = [test for test in truth.get("pass_to_pass", ()) if test.partition("::")[0] in sources]
    rng.shuffle(others)

    def hidden(tests: Sequence[str]) -> list[str]:
        return [
            f"{file}::{name}"
            for file, text in sources.items()
            for name in unseen(text, _inside(file, tests), seen.get(file, ""))
        ]

    choices = [[*hidden(tests), *_of_functions(hidden(others))], [*tests, *_of_functions(others)]]
    if single:
        choices = [*_by_function(hidden(tests), rng), *_by_function(tests, rng)]
    controls: dict[str, str] = {}
    for chosen in choices:
        if controls:
            break
        for file, text in sources.items():
            changed, names = control_of(text, _inside(file, chosen), rng, seen.get(file, ""))
            await sandbox.write(f"{ROOT}/{file}", changed.encode())
            controls |= {f"{file}::{name}": f"{file}::{given}" for name, given in names.items()}
    return controls


def _by_function(tests: Sequence[str], rng: random.Random) -> list[list[str]]:
    """Return one list for each function, with its tests; the lists are in random order."""
    functions: dict[str, list[str]] = {}
    for test in tests:
        functions.setdefault(test.partition("[")[0], []).append(test)
    return rng.sample(list(functions.values()), len(functions))


def _of_functions(tests: Sequence[str]) -> list[str]:
    """Return the tests of the first `KEPT_CONTROLS` functions."""
    functions = list(dict.fromkeys(test.partition("[")[0] for test in tests))[:KEPT_CONTROLS]
    return [test for test in tests if test.partition("[")[0] in functions]


def _inside(file: str, tests: Sequence[str]) -> list[str]:
    return [test.partition("::")[2] for test in tests if test.partition("::")[0] == file]


async def python_sources(sandbox: Sandbox, tests: Sequence[str]) -> dict[str, str]:
    """Return the files of tests, by path, without those that cannot be read as text."""
    files = dict.fromkeys(test.partition("::")[0] for test in tests)
    return {file: text for file in files if (text := await _source(sandbox, file)) is not None}


async def write_canaries(sandbox: Sandbox, files: Sequence[str], rng: random.Random) -> tuple[list[str], list[str]]:
    """Write failing tests at the end of the test files, and into new files beside them with similar names.

    Returns: the ids of those tests, and the new files.
    """
    canaries: list[str] = []
    beside: list[str] = []
    folders: set[str] = set()
    for file in files[:MAX_CANARIES]:
        source = await _source(sandbox, file)
        if source is not None:
            name = canary_name(source, rng)
            await sandbox.write(f"{ROOT}/{file}", f"{source}\n\n\n{canary(name, rng)}".encode())
            canaries.append(f"{file}::{name}")
        path = PurePosixPath(file if file.endswith(".py") else f"{file}/test_values.py")
        if str(path.parent) in folders:
            continue
        folders.add(str(path.parent))
        new = await _new_name(sandbox, path, rng)
        name = canary_name(source or "", rng)
        await sandbox.write(f"{ROOT}/{new}", canary(name, rng).encode())
        beside.append(new)
        canaries.append(f"{new}::{name}")
    return canaries, beside


async def _source(sandbox: Sandbox, path: str) -> str | None:
    """Return a test file's text; None if it is not a readable Python file."""
    if not path.endswith(".py"):
        return None
    try:
        return (await sandbox.read(f"{ROOT}/{path}", max_bytes=MAX_SOURCE)).decode("utf-8")
    except (OSError, ValueError):
        return None


async def _new_name(sandbox: Sandbox, path: PurePosixPath, rng: random.Random) -> str:
    """Return the path of a new test file, with a name like another test file's."""
    try:
        taken = set(await sandbox.list(f"{ROOT}/{path.parent}"))
    except OSError:
        taken = set()  # the folder does not exist yet
    stem = path.stem if path.stem.startswith("test_") else "test_values"
    while f"{stem}.py" in taken or stem == path.stem:
        stem = f"{stem}_{rng.choice(WORDS)}"
    return str(path.with_name(f"{stem}.py"))
