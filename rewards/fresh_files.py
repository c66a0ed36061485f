"""Runs commands on submitted files in a fresh sandbox, and compares the commands' output in this process.

The expected output never enters the sandbox, so a submission cannot read it. Tricks such as a planted conftest.py or
sitecustomize.py, an exit status or a printed marker do not help: the submission must compute the output.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from agentgym import JudgeError, SandboxSpec, Trajectory, shared_backend
from agentgym.reward import judge_submission, read_submission
from agentgym.sandbox import Backend, ExecResult, Sandbox

from .final_answer import final_call

SPEC = SandboxSpec(memory_mib=512, processes=64, disk_mib=64, preload=("json",))
MAX_OUTPUT = 2**20
AT_ONCE = 200  # number of file names on one command line
MARK = "Submitted: "
MAX_STOPPED = 3
"""After so many commands that a limit stopped, the others fail unplayed: a program that hangs does so on each input."""
KILLED = {sign * signal + base for signal in (9, 24) for sign, base in ((-1, 0), (1, 128))}
"""The exit codes of a command that used up its processor time, or of a shell whose command did."""
NUMBER = re.compile(r"[+-]?(\d{1,400}(\.\d{0,400})?|\.\d{1,400})(e[+-]?\d{1,3})?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SubmittedFiles:
    """Submitted files: contents by path, the paths of executables, and empty folders."""

    contents: Mapping[str, bytes]
    executable: frozenset[str] = frozenset()
    folders: Sequence[str] = ()

    def text(self, path: str) -> str | None:
        """Return a file as text, with invalid UTF-8 replaced; None if there is no such file."""
        raw = self.contents.get(path)
        return None if raw is None else raw.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Command:
    """One command with its input and expected output.

    Attributes:
        argv: the program and its arguments; it runs in /work.
        stdout: the expected output. exit_code: the expected exit code.
        same: says whether an output is the expected one; by default, if their lines are equal (`lines_of`).
    """

    argv: Sequence[str]
    stdout: str
    stdin: str = ""
    exit_code: int = 0
    same: Callable[[str, str], bool] = lambda output, expected: lines_of(output) == lines_of(expected)

    @classmethod
    def of(cls, run: Any, argv: Sequence[str] = ()) -> Command:
        """Parse {"command" or "argv", "stdin", "stdout", "exit_code"}. Raises: JudgeError if something is missing."""
        try:
            words = argv or run.get("argv") or ["bash", "-c", run["command"]]
            return cls([str(word) for word in words], run["stdout"], run.get("stdin", ""), run.get("exit_code", 0))
        except (KeyError, TypeError, AttributeError) as error:
            raise JudgeError(f"The hidden run {run!r:.200} has no command, or no expected stdout.") from error

    def holds(self, result: ExecResult) -> bool:
        """Return whether exit code and output are as expected."""
        complete = not (result.timed_out or result.oom_killed or result.truncated)
        return complete and result.exit_code == self.exit_code and self.same(result.text, self.stdout)


def same_words(output: str, expected: str, *, tolerance: float, ignore_case: bool) -> bool:
    """Return whether two outputs have equal words, as contests compare them: numbers by value, within a tolerance,
    which is relative for large numbers and absolute for small ones.
    """
    left, right = ((text.casefold() if ignore_case else text).split() for text in (output, expected))
    return len(left) == len(right) and all(a == b or _close(a, b, tolerance) for a, b in zip(left, right, strict=True))


def _close(left: str, right: str, tolerance: float) -> bool:
    if not (NUMBER.fullmatch(left) and NUMBER.fullmatch(right)):
        return False
    value, expected = Fraction(left), Fraction(right)
    return abs(value - expected) <= Fraction(tolerance) * max(Fraction(1), abs(expected))


def lines_of(text: str) -> list[str]:
    """Return the lines of a text without trailing spaces, and without empty lines at the end."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


@dataclass(frozen=True, slots=True)
class FreshSandbox:
    """Creates fresh sandboxes with files in them.

    Attributes:
        backend: a name or a Backend.
        timeout_s: wall time of each command.
        cpu_s: processor seconds of each command. Unlike a limit on wall time, this does not fail a right program on a
            busy host.
    """

    backend: str | Backend = "namespaces"
    timeout_s: float = 60.0
    cpu_s: int = 10
    spec: SandboxSpec = field(default=SPEC)

    @asynccontextmanager
    async def holding(self, files: SubmittedFiles) -> AsyncIterator[Sandbox]:
        """Yield a sandbox with the files under /work. Raises: SandboxError; OSError if they do not fit."""
        sandbox = await shared_backend(self.backend).create(self.spec)
        try:
            for start in range(0, len(files.folders), AT_ONCE):
                await sandbox.exec(["mkdir", "-p", "--", *files.folders[start : start + AT_ONCE]])
            writes = [
                sandbox.write(path, raw, 0o755 if path in files.executable else 0o644)
                for path, raw in files.contents.items()
            ]
            await asyncio.gather(*writes)
            yield sandbox
        finally:
            await sandbox.close()

    async def run(self, sandbox: Sandbox, argv: Sequence[str], stdin: str = "") -> ExecResult:
        """Run a command under the limits. The limit of processor time applies to each of its processes."""
        limited = ["sh", "-c", f'ulimit -t {self.cpu_s}; exec "$@"', "sh", *argv]
        raw = stdin.encode("utf-8", "surrogatepass")
        return await sandbox.exec(limited, stdin=raw, timeout_s=self.timeout_s, max_output_bytes=MAX_OUTPUT)

    async def verdicts(
        self, files: SubmittedFiles, commands: Sequence[Command], *, build: Sequence[str] = ()
    ) -> list[bool]:
        """Run the commands in order in one sandbox and return whether each passes; all False if the build fails.

        If the sandbox breaks, everything is run once more in a new one. If that breaks as well, the submission has
        failed every command. Raises: JudgeError if a sandbox breaks even without a submission, or lacks the program
        `build[0]`.
        """
        failed = [False] * len(commands)
        return await judge_submission(lambda: self._verdicts(files, commands, build), self.check_works, failed)

    async def check_works(self) -> None:
        """Check that a sandbox without a submission runs a command correctly. Raises: SandboxError; JudgeError."""
        async with self.holding(SubmittedFiles({"works": b"works"})) as sandbox:
            output = (await self.run(sandbox, ["cat", "works"])).text
        if output != "works":
            raise JudgeError(f"The judge's sandbox does not run commands correctly: `cat works` gives {output!r:.80}.")

    async def _verdicts(self, files: SubmittedFiles, commands: Sequence[Command], build: Sequence[str]) -> list[bool]:
        async with self.holding(files) as sandbox:
            if build and not (built := await self.run(sandbox, build)).ok:
                if built.exit_code == 127:
                    raise JudgeError(f"The judge's image has no {build[0]}. Install it, or leave the task out.")
                return [False] * len(commands)
            passed, stopped = [False] * len(commands), 0
            for number, command in enumerate(commands):
                result = await self.run(sandbox, command.argv, command.stdin)
                passed[number] = command.holds(result)
                stopped += result.timed_out or result.exit_code in KILLED
                if stopped == MAX_STOPPED:
                    break
            return passed


def submitted_files(episode: Trajectory) -> SubmittedFiles | None:
    """Return the files that the final call submitted; None without such a call, or if they are unreadable.

    Raises: JudgeError if the call's result is not a submission of files: environment and reward do not match.
    """
    if (final := final_call(episode)) is None:
        return None
    text = str(final[1].content)
    if not text.startswith(MARK):
        raise JudgeError(
            f"The final result {text[:60]!r} contains no files: it does not begin with {MARK!r}. Use this reward with "
            "environments whose final tool hands in files, such as agentgym/code-files-v1."
        )
    return read_submission(lambda: _parsed(text.removeprefix(MARK)))


def _parsed(text: str) -> SubmittedFiles:
    """Parse submitted files. Raises: ValueError, TypeError or the like for data that no environment writes."""
    data = json.loads(text)
    contents = {path: value.encode() for path, value in data["files"].items()}
    contents |= {path: base64.b64decode(value) for path, value in data["binary"].items()}
    folders, executable = list(data["folders"]), frozenset(data["executable"])
    for path in (*contents, *folders, *executable):
        if not path or path.startswith("/") or "\0" in path or ".." in path.split("/"):
            raise ValueError(f"{path!r:.80} is not a path below /work")
    return SubmittedFiles(contents, executable, folders)
