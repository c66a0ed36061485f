"""`final_files`: whether the submitted files have the right contents and behave correctly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym import JudgeError, Reward, Trajectory
from agentgym.reward import SUCCESS, Components
from agentgym.sandbox import Backend

from .fresh_files import Command, FreshSandbox, SubmittedFiles, lines_of, submitted_files
from .hidden_tests import HiddenTests

CHECKS = ("files", "runs", "tests", "holds", "lacks")


class FinalFiles(Reward):
    """Outcome components `success` (every check passes) and `checks_passed` (the share that does).

    The files are judged as a copy in fresh sandboxes that the agent never touched. The truth has one or more of
        files: the expected contents by path; None for a file that must not exist.
        holds, lacks: lists of [path, text]: the file must, or must not, contain the text.
        runs: {"command" or "argv", "stdin", "stdout"}: shell commands and their expected output.
        tests: assertions such as `assert total([1]) == 1`, which run after the Python code `truth["imports"]`.
    Expected values are compared outside every sandbox. `checks_passed` has weight 0.

    Args:
        cpu_s: processor time of each command, and of all assertions together. timeout_s: wall time of each.
        backend: creates the judge's sandboxes; a name or a Backend.
    """

    weights: Mapping[str, float] = {"checks_passed": 0.0}

    def __init__(self, *, cpu_s: int = 10, timeout_s: float = 60.0, backend: str | Backend = "namespaces") -> None:
        self.sandbox = FreshSandbox(backend, timeout_s, cpu_s)
        self.tests = HiddenTests(cpu_s=cpu_s, timeout_s=timeout_s, backend=backend)

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode. Raises: JudgeError if the truth has no checks, or if no sandbox works."""
        truth = episode.task.truth
        if not isinstance(truth, dict) or not any(truth.get(name) for name in CHECKS):
            raise JudgeError(
                f"{episode.task.id}: the truth has no checks of files. Give it one of {', '.join(CHECKS)}."
            )
        files = submitted_files(episode)
        passed = [False] if files is None else await self.judge(files, truth)
        return {SUCCESS: float(all(passed)), "checks_passed": sum(passed) / len(passed)}

    async def judge(self, files: SubmittedFiles, truth: Mapping[str, Any]) -> list[bool]:
        """Return whether each check passes: first those of contents, then the runs, then the tests.

        Raises: JudgeError.
        """
        passed = [_matches(files.text(path), expected) for path, expected in truth.get("files", {}).items()]
        for name, expected in (("holds", True), ("lacks", False)):
            for path, text in truth.get(name, ()):
                passed.append((text in (files.text(path) or "")) is expected)
        if runs := truth.get("runs"):
            passed += await self.sandbox.verdicts(files, [Command.of(run) for run in runs])
        if tests := truth.get("tests"):
            passed += await self.tests.judge(truth.get("imports", ""), tests, files=files.contents)
        return passed


def _matches(actual: str | None, expected: str | None) -> bool:
    return actual is None if expected is None else actual is not None and lines_of(actual) == lines_of(expected)
