"""Files put into a fresh sandbox that no agent touched, and commands run there whose output is compared out here.

What a command must print never enters the sandbox, so a submission cannot read it, and whatever it does to the
programs around it (a planted conftest.py or sitecustomize.py, an exit status, a marker that is printed) it still has
to print what it could only have computed.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from agentgym import JudgeError, SandboxError, SandboxSpec, shared_backend
from agentgym.reward import EpisodeView
from agentgym.sandbox import Backend, ExecResult, Sandbox

from .final_answer import final_call
from .second_try import second_try

SPEC = SandboxSpec(memory_mib=512, processes=64, disk_mib=64, preload=("json",))
MAX_OUTPUT = 2**20
MARK = "Submitted: "


@dataclass(frozen=True, slots=True)
class SubmittedFiles:
    """What an agent handed in: contents by path, those that may be executed, and empty folders."""

    contents: Mapping[str, bytes]
    executable: frozenset[str] = frozenset()
    folders: Sequence[str] = ()

    def text(self, path: str) -> str | None:
        """A file as text, bytes that are no UTF-8 replaced; None if there is none."""
        raw = self.contents.get(path)
        return None if raw is None else raw.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Command:
    """One command with its input, and what it must print: compared line by line, without spaces at the ends.

    Attributes:
        argv: the program and its arguments; it runs in /work.
        stdout: what it must print. exit_code: how it must end.
    """

    argv: Sequence[str]
    stdout: str
    stdin: str = ""
    exit_code: int = 0

    @classmethod
    def of(cls, given: Any, argv: Sequence[str] = ()) -> Command:
        """From {"command" or "argv", "stdin", "stdout", "exit_code"}. Raises: JudgeError if something is missing."""
        try:
            words = argv or given.get("argv") or ["bash", "-c", given["command"]]
            return cls(
                [str(word) for word in words], given["stdout"], given.get("stdin", ""), given.get("exit_code", 0)
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise JudgeError(f"The hidden run {given!r:.200} lacks a command or its stdout.") from error

    def holds(self, result: ExecResult) -> bool:
        """Whether the command ended and printed as it must."""
        whole = not (result.timed_out or result.oom_killed or result.truncated)
        return whole and result.exit_code == self.exit_code and lines_of(result.text) == lines_of(self.stdout)


def lines_of(text: str) -> list[str]:
    """Lines without spaces at their ends, and without empty ones at the end."""
    return [line.rstrip() for line in text.rstrip().splitlines()]


@dataclass(frozen=True, slots=True)
class FreshMachine:
    """Makes fresh sandboxes with files in them.

    Attributes:
        backend: a name or a Backend.
        timeout_s: wall time of each command.
        cpu_s: processor time of each command, so that a busy machine does not fail a right program.
    """

    backend: str | Backend = "namespaces"
    timeout_s: float = 60.0
    cpu_s: int = 10
    spec: SandboxSpec = field(default=SPEC)

    @asynccontextmanager
    async def holding(self, files: SubmittedFiles) -> AsyncIterator[Sandbox]:
        """A sandbox with the files under /work. Raises: SandboxError; OSError if they do not fit."""
        machine = await shared_backend(self.backend).create(self.spec)
        try:
            if files.folders:
                await machine.exec(["mkdir", "-p", "--", *files.folders])
            writes = [
                machine.write(path, raw, 0o755 if path in files.executable else 0o644)
                for path, raw in files.contents.items()
            ]
            await asyncio.gather(*writes)
            yield machine
        finally:
            await machine.close()

    async def run(self, machine: Sandbox, argv: Sequence[str], stdin: str = "") -> ExecResult:
        """Run a command under the limits. The processor limit holds for each of its processes."""
        limited = ["sh", "-c", f'ulimit -t {self.cpu_s}; exec "$@"', "sh", *argv]
        raw = stdin.encode("utf-8", "surrogatepass")
        return await machine.exec(limited, stdin=raw, timeout_s=self.timeout_s, max_output_bytes=MAX_OUTPUT)

    async def verdicts(
        self, files: SubmittedFiles, commands: Sequence[Command], *, build: Sequence[str] = ()
    ) -> list[bool]:
        """Which of the commands hold, in one sandbox, in order. None does where the build fails.

        A sandbox that breaks is tried again once; a submission that breaks its second one too has failed, if the
        machine works without it. Raises: JudgeError when it does not.
        """
        return await second_try(
            lambda: self._verdicts(files, commands, build), self.check_works, [False] * len(commands)
        )

    async def check_works(self, cause: Exception) -> None:
        """Raises: JudgeError unless a sandbox without any submission runs a command as it should."""
        try:
            async with self.holding(SubmittedFiles({})) as machine:
                said = (await self.run(machine, ["echo", "works"])).text
        except SandboxError as error:
            raise JudgeError(f"No sandbox would run the hidden checks: {error}") from error
        if said != "works\n":
            raise JudgeError(f"The sandbox does not run commands as it should: {cause}") from cause

    async def _verdicts(self, files: SubmittedFiles, commands: Sequence[Command], build: Sequence[str]) -> list[bool]:
        try:
            async with self.holding(files) as machine:
                if build and not (built := await self.run(machine, build)).ok:
                    if built.exit_code == 127:
                        raise JudgeError(f"{build[0]} is not in the judge's image: install it, or leave the task out.")
                    return [False] * len(commands)
                return [command.holds(await self.run(machine, command.argv, command.stdin)) for command in commands]
        except OSError as error:
            if isinstance(error, SandboxError):
                raise
            raise JudgeError(f"The submitted files cannot be written: {error}") from error


def submitted_files(episode: EpisodeView) -> SubmittedFiles | None:
    """The files that the final call handed in, None if there was none. Raises: JudgeError if the result holds none."""
    found = final_call(episode)
    return None if found is None else _parsed(str(found[1].content))


def _parsed(text: str) -> SubmittedFiles:
    try:
        if not text.startswith(MARK):
            raise ValueError("it does not begin as one that hands in files")
        found = json.loads(text.removeprefix(MARK))
        contents = {path: value.encode() for path, value in found["files"].items()}
        contents |= {path: base64.b64decode(value) for path, value in found["binary"].items()}
        return SubmittedFiles(contents, frozenset(found["executable"]), list(found["folders"]))
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, RecursionError) as error:
        raise JudgeError(f"The final result {text[:60]!r} holds no files that could be judged: {error}") from error
