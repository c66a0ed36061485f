"""Runs tests of any language by a command, if a task names a runner, and reads the outcomes from the printed report.

The report is text, and tests can print text too. Three measures counter a forged report: a test reported as failed
anywhere has failed; a test that must fail is among the others, under a random name; and before a patch earns reward,
its tests are run once more with other values in their assertions, which the gold patch does not pass.
"""

from __future__ import annotations

import random
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from agentgym import SandboxError
from agentgym.sandbox import ExecResult, Sandbox

from .control_values import STEPS
from .parameters import RepositoryParameters
from .repository import QUIET, ROOT, import_path, in_environment
from .runners import Canary, Report

MAX_REPORT, MAX_SOURCE, MAX_LISTING = 2**24, 2**23, 2**25
ASSERTION = re.compile(r"assert|expect|should|check|require|equal|[!=]=", re.I)
COMPARED = re.compile(r"[!=]==?\s*-?$")
IMPORT = re.compile(r"^\s*(#\s*include|import|use|from|package)\b|\brequire\s*\(\s*['\"]")
NAMED = re.compile(r"\b(it|test|describe|suite|TEST)\s*\(\s*$")
"""Matches the text before a test's name. A control must not change the name."""
BEGINS = re.compile(
    r"\b(it|test|TEST\w*|Test)\s*\(|\bfunc\s+Test|#\[\w*:*\w*test\b|@\w*Test\b|\bdef\s+test|\bmain\s*\("
)
"""Matches the beginning of a test."""
LITERAL = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|\b\d+\b")

PLAIN_LETTER = re.compile(r"\\\w+|%[-+ #0-9.]*\w|(?P<letter>[A-Za-z0-9])")
"""Letters of a literal that are not part of an escape sequence or a format."""


async def run_command(
    sandbox: Sandbox, parameters: RepositoryParameters, *, cpu_s: int, timeout_s: float, max_bytes: int = MAX_REPORT
) -> ExecResult:
    """Run the task's test command in the repository."""
    command = f"ulimit -t {cpu_s}\n{parameters.test_command}"
    return await sandbox.exec(
        ["sh", "-c", in_environment(command)],
        cwd=ROOT,
        env={**QUIET, "PYTHONPATH": import_path(parameters.path)},
        timeout_s=timeout_s,
        max_output_bytes=max_bytes,
    )


async def judged_report(
    sandbox: Sandbox,
    parameters: RepositoryParameters,
    patterns: Sequence[str],
    *,
    cpu_s: int,
    timeout_s: float,
) -> tuple[Report, bool]:
    """Return the runner's report, and whether it is forged: a test that must fail is reported as passed.

    The report is empty if the test that must fail is missing, or if the run did not finish.

    Args:
        patterns: match the test files.
    """
    runner = parameters.test_runner
    assert runner is not None
    files = await files_of_tests(sandbox, patterns)
    canary = runner.canary(files, random.Random(secrets.randbits(64)))
    if canary is not None:
        await _write_canary(sandbox, canary)
    result = await run_command(sandbox, parameters, cpu_s=cpu_s, timeout_s=timeout_s)
    if result.timed_out or result.oom_killed or result.truncated:
        return Report(), False
    report = runner.parse(result.stdout.decode("utf-8", "replace"))
    if canary is None:
        return report, False
    outcomes = {report.outcomes.pop(test) for test in list(report.outcomes) if test.endswith(canary.name)}
    if outcomes == {"failed"}:
        return report, False
    return Report(), "passed" in outcomes


async def write_controls(
    sandbox: Sandbox, truth: Mapping[str, Any], seed: int, seen: Mapping[str, str]
) -> dict[str, str]:
    """Change a value in one assertion of each test, if possible in a line that the agent has not seen.

    Args:
        seen: the test files as the agent had them, by path.
    Returns: the ids of the tests to fix, which must fail now that they are changed. Each is mapped to its id before the
        change, which is the same. Empty without a gold patch, because only a run with that patch can show which changed
        tests still pass and so cannot be controls.
    """
    if not truth.get("gold"):
        return {}
    rng = random.Random(seed)
    texts = sorted((await files_of_tests(sandbox, truth.get("tests", ()))).items())
    known = {line.strip() for text in seen.values() for line in text.split("\n")}
    controls = {path: control_text(text, rng, known) for path, text in texts}
    if not any(controls[path] != text for path, text in texts):
        controls = {path: control_text(text, rng) for path, text in texts}
    changed = {path: controls[path] for path, text in texts if controls[path] != text}
    for path, text in changed.items():
        await sandbox.write(f"{ROOT}/{path}", text.encode())
    return {test: test for test in truth["fail_to_pass"]} if changed else {}


def control_text(source: str, rng: random.Random, known: Collection[str] = ()) -> str:
    """Return a test file of any language with another value in one line of each test that asserts.

    The compared value is changed, or else the last literal; equal literals stay equal. Only one line is changed, so
    that a patch that forges the outcome of other assertions too is detected. `known`: lines that stay unchanged.
    """
    salt = rng.getrandbits(64)
    lines = source.split("\n")
    possible: list[list[tuple[int, re.Match[str]]]] = [[]]
    for number, line in enumerate(lines):
        if BEGINS.search(line):
            possible.append([])
        if line.strip() not in known and (literal := _literal_to_change(line)):
            possible[-1].append((number, literal))
    for number, literal in (rng.choice(places) for places in possible if places):
        other = _other(literal[0], random.Random(f"{salt}:{literal[0]}"))
        lines[number] = f"{lines[number][: literal.start()]}{other}{lines[number][literal.end() :]}"
    return "\n".join(lines)


def _literal_to_change(line: str) -> re.Match[str] | None:
    """Return the value that an assertion compares; a text is preferred to the 0 that means equality."""
    if IMPORT.search(line) or not ASSERTION.search(line):
        return None
    literals = [literal for literal in LITERAL.finditer(line) if not NAMED.search(line[: literal.start()])]
    compared = [literal for literal in literals if COMPARED.search(line[: literal.start()])]
    texts = [literal for literal in literals if literal[0][0] in "\"'"]
    chosen = texts if texts and compared and compared[-1][0] == "0" else compared
    last = (chosen or literals)[-1:]
    return last[0] if last else None


def _other(literal: str, rng: random.Random) -> str:
    if literal.isdigit():
        return str(int(literal) + rng.choice(STEPS))
    places = [match.start() for match in PLAIN_LETTER.finditer(literal) if match["letter"]]
    if not places:
        return f"{literal[:-1]}{rng.choice('aehnorst')}{literal[-1]}"
    at = rng.choice(places)
    letter = rng.choice([letter for letter in "aehnorst" if letter != literal[at]])
    return f"{literal[:at]}{letter}{literal[at + 1 :]}"


async def files_of_tests(sandbox: Sandbox, patterns: Sequence[str]) -> dict[str, str]:
    """Return the texts of the test files by path.

    Raises: SandboxError if not all files can be listed: the controls, which detect cheats, need all test files.
    """
    command = ["find", ".", "-type", "f", "-not", "-path", "./.git/*", "-print0"]
    listing = await sandbox.exec(command, cwd=ROOT, env=QUIET, timeout_s=60, max_output_bytes=MAX_LISTING)
    if not listing.ok or listing.truncated:
        why = f"their paths are more than {MAX_LISTING} bytes" if listing.truncated else listing.stderr.decode()[-300:]
        raise SandboxError(f"The files of the repository cannot be listed: {why}")
    texts: dict[str, str] = {}
    for name in listing.text.split("\0"):
        path = name.removeprefix("./")
        if any(fnmatchcase(path, pattern) for pattern in patterns):
            try:
                texts[path] = (await sandbox.read(f"{ROOT}/{path}", max_bytes=MAX_SOURCE)).decode("utf-8")
            except (OSError, ValueError):
                continue  # too large, or not text
    return texts


async def _write_canary(sandbox: Sandbox, canary: Canary) -> None:
    try:
        before = await sandbox.read(f"{ROOT}/{canary.path}", max_bytes=MAX_SOURCE)
    except FileNotFoundError:
        before = b""
    await sandbox.write(f"{ROOT}/{canary.path}", before + canary.text.encode())
