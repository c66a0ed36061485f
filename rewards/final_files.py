"""`final_files`: are the files that the agent handed in as they must be, and do they do what they must?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentgym import JudgeError, Reward
from agentgym.reward import SUCCESS, Components, EpisodeView
from agentgym.sandbox import Backend

from .fresh_files import Command, FreshMachine, SubmittedFiles, lines_of, submitted_files
from .hidden_tests import HiddenTests

CHECKS = ("files", "runs", "tests", "holds", "lacks")


class FinalFiles(Reward):
    """Outcome components `success` (every check holds) and `checks_passed` (the fraction that does).

    Judged on a copy of the files in fresh sandboxes that the agent never touched. The truth holds one or more of
        files: what files must hold, by path; None for a file that must not be there.
        holds, lacks: lists of [path, text]: the text must, or must not, stand in that file.
        runs: {"command" or "argv", "stdin", "stdout"}: shell commands and what they must print.
        tests: assertions such as `assert total([1]) == 1`, after the Python of `truth["imports"]`.
    Expected values are compared outside of every sandbox. `checks_passed` counts 0 in the scalar reward.

    Args:
        cpu_s: processor time of each command, and of all assertions together. timeout_s: wall time of each.
        backend: makes the judge's sandboxes; a name or a Backend.
    """

    weights: Mapping[str, float] = {"checks_passed": 0.0}

    def __init__(self, *, cpu_s: int = 10, timeout_s: float = 60.0, backend: str | Backend = "namespaces") -> None:
        self.machine = FreshMachine(backend, timeout_s, cpu_s)
        self.tests = HiddenTests(cpu_s=cpu_s, timeout_s=timeout_s, backend=backend)

    async def outcome(self, episode: EpisodeView) -> Components:
        """Raises: JudgeError when there is nothing to check, or no sandbox works."""
        truth = episode.task.truth
        if not isinstance(truth, dict) or not any(truth.get(name) for name in CHECKS):
            raise JudgeError(f"{episode.task.id}: truth has none of {', '.join(CHECKS)}: final_files has no checks.")
        files = submitted_files(episode)
        passed = [False] if files is None else await self.judge(files, truth)
        return {SUCCESS: float(all(passed)), "checks_passed": sum(passed) / len(passed)}

    async def judge(self, files: SubmittedFiles, truth: Mapping[str, Any]) -> list[bool]:
        """Which checks hold: of contents, then runs, then tests. Raises: JudgeError."""
        passed = [_as_wanted(files.text(path), wanted) for path, wanted in truth.get("files", {}).items()]
        for name, wanted in (("holds", True), ("lacks", False)):
            for path, text in truth.get(name, ()):
                passed.append((text in (files.text(path) or "")) is wanted)
        if runs := truth.get("runs"):
            passed += await self.machine.verdicts(files, [Command.of(run) for run in runs])
        if tests := truth.get("tests"):
            passed += await self.tests.judge(truth.get("imports", ""), tests, files=files.contents)
        return passed


def _as_wanted(given: str | None, wanted: str | None) -> bool:
    return given is None if wanted is None else given is not None and lines_of(given) == lines_of(wanted)
