"""`program_output`: whether the submitted program prints the right output for inputs that the agent never saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from agentgym import JudgeError, Reward, SandboxError, Trajectory
from agentgym.reward import SUCCESS, Components
from agentgym.sandbox import Backend, toolchain_fault

from .final_answer import submitted_text
from .fresh_files import Command, FreshSandbox, SubmittedFiles, same_words


class ProgramOutput(Reward):
    """Outcome components `success` (right on every input) and `runs_passed` (the share of right runs).

    The program is the text argument of the final call. The task's `parameters["program"]` gives the program's file, the
    command that builds it (if any) and the command that runs it. `truth["runs"]` is a list of {"stdin",
    "stdout"}. The program is built and run in a fresh sandbox that never holds the expected outputs; they are compared
    in this process, line by line without trailing spaces; with a `truth["tolerance"]`, word by word (`same_words`),
    without regard to case if `truth["ignore_case"]` is true. `truth["cpu_s"]` replaces the processor seconds of each
    run. `runs_passed` has weight 0. If no run is right, a program
    that does nothing is also built and run. If that fails, the toolchain is broken, and JudgeError is raised instead of
    a verdict. `parameters["program"]["harmless"]` is the text of this program, for languages for which none is built
    in.

    Args:
        cpu_s: processor time of each run. timeout_s: wall time of each, which stops programs that sleep.
        backend: creates the judge's sandboxes; a name or a Backend.
        argument: the final tool's argument that holds the program.
    """

    weights: Mapping[str, float] = {"runs_passed": 0.0}

    def __init__(
        self,
        *,
        cpu_s: int = 10,
        timeout_s: float = 60.0,
        backend: str | Backend = "namespaces",
        argument: str = "code",
    ) -> None:
        self.sandbox, self.argument = FreshSandbox(backend, timeout_s, cpu_s), argument
        self._working: set[str] = set()  # commands that worked on a harmless program

    async def outcome(self, episode: Trajectory) -> Components:
        """Judge a finished episode.

        Raises: JudgeError if the task has no hidden runs or no usable program, or no sandbox or toolchain works.
        """
        truth, program = episode.task.truth, episode.task.parameters.get("program")
        if not isinstance(truth, dict) or not truth.get("runs"):
            raise JudgeError(
                f"{episode.task.id} has no truth['runs'], which program_output runs. Give the task its runs."
            )
        if not isinstance(program, Mapping) or not program.get("run") or not program.get("file"):
            raise JudgeError(f"{episode.task.id} needs parameters['program'] with a file and a command that runs it.")
        commands = [Command.of(run, program["run"]) for run in truth["runs"]]
        if (tolerance := truth.get("tolerance")) is not None:
            same = partial(same_words, tolerance=tolerance, ignore_case=bool(truth.get("ignore_case")))
            commands = [replace(command, same=same) for command in commands]
        sandbox = replace(self.sandbox, cpu_s=truth.get("cpu_s", self.sandbox.cpu_s))
        code = submitted_text(episode, self.argument)
        if code is None:
            return {SUCCESS: 0.0, "runs_passed": 0.0}
        files = SubmittedFiles({program["file"]: code.encode("utf-8", "surrogatepass")})
        passed = await sandbox.verdicts(files, commands, build=program.get("build", ()))
        if not any(passed):
            await self._check_toolchain(program)
        return {SUCCESS: float(all(passed)), "runs_passed": sum(passed) / len(passed)}

    async def _check_toolchain(self, program: Mapping[str, Any]) -> None:
        """Check the commands on a harmless program, in a sandbox without the submission. Raises: JudgeError."""
        key = repr(sorted(program.items()))
        if key in self._working:
            return
        file, build, run, harmless = (program.get(name) for name in ("file", "build", "run", "harmless"))
        try:
            async with self.sandbox.holding(SubmittedFiles({})) as sandbox:
                fault = await toolchain_fault(sandbox, str(file), build or (), run or (), harmless=harmless)
        except SandboxError as error:
            raise JudgeError(f"The judge's sandbox could not run the hidden checks: {error}") from error
        if fault:
            raise JudgeError(f"The judge's toolchain does not work: {fault}. Repair the image, or leave the task out.")
        self._working.add(key)
