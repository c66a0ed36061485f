"""`agentgym/code-chores-v1`: small changes to the files of one folder, asked for one at a time, by shell commands."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from agentgym import Checkpoint, Message, SandboxError, SandboxSpec, Task, TaskError, ToolError, tool
from agentgym.sandbox import Sandbox

from ..session import SessionEnvironment
from .transcript import transcript
from .workbench import RUN_S, Workbench, files_of

MAX_FILES, MAX_BYTES = 64, 4_096  # maximum number of files, and of bytes per compared file
MAX_CHARS = 1_000


class CodeChores(SessionEnvironment):
    """A folder of text files in a sandbox without network. Not isolated: its commands share the files.

    Every command starts in /work, in a new shell; processes that still run at its end are killed. Task parameters,
    besides those of every session: `files`, texts by name. A goal maps file names to the texts that the files must have
    after the command; None for a file that must be gone. All other files must be unchanged. The sandbox's guest process
    reads the files, so no program of the agent can interfere.
    """

    task_set = "code/chores-v1"

    sandbox = SandboxSpec(memory_mib=256, processes=64, disk_mib=64, preload=("json",))
    system = "You work in a shell. Answer each request by one command."
    _bench: Workbench
    _files: dict[str, str]  # contents of the folder's files, by name

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task. Raises: TaskError for invalid files or goals."""
        opening = await super().reset(task, seed=seed)
        if wrong := [goal for goal in self._goals if not isinstance(goal, Mapping)]:
            raise TaskError(f"{task.id}: the goal {wrong[0]!r:.80} must map names of files to texts.")
        files = files_of(task)
        self._bench = Workbench(self, files, programs=("bash",))
        self._files = {name: _normalised(text) for name, text in files.items()}
        return opening

    @tool(parallel=False)
    async def bash(self, command: str) -> str:
        """Run a command."""
        self.check_open()
        if "\x00" in command:
            raise ToolError(self.next_request("The command holds a null character.", right=False))
        result = await self._bench.command(["bash", "--noprofile", "--norc", "-c", command])
        is_silent = result.ok and not result.stdout and not result.stderr
        stopped: ToolError | None = None
        try:
            answer = "" if is_silent else transcript(result, RUN_S, max_chars=MAX_CHARS)
        except ToolError as error:
            answer, stopped = str(error), error
        before, self._files = self._files, await _files_in(await self._bench.sandbox())
        text = self.next_request(answer, right=self._files == _changed(before, self.goal))
        if stopped is not None:
            raise ToolError(text) from stopped
        return text

    async def state_key(self) -> str | None:
        """Hash of the task, of all files in the sandbox, and of the verdicts on the requests so far."""
        return self.session_key(await self._bench.state_key())

    async def checkpoint(self) -> Checkpoint | None:
        return await self._bench.checkpoint(verdicts=self._verdicts, files=dict(self._files))

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await super().restore(task, checkpoint, seed=seed)
        self._bench = Workbench(self, files_of(task), programs=("bash",), checkpoint=checkpoint)
        self._files = dict(checkpoint.data["files"])


def _changed(files: Mapping[str, str], goal: Mapping[str, str | None]) -> dict[str, str]:
    """Return the files with the changes that a goal asks for."""
    unchanged = {name: text for name, text in files.items() if name not in goal}
    return unchanged | {name: _normalised(text) for name, text in goal.items() if text is not None}


async def _files_in(sandbox: Sandbox) -> dict[str, str]:
    """Return the texts in /work by name. A file that cannot be compared has a text that no goal can ask for."""
    try:
        names = await sandbox.list()
    except SandboxError:  # a SandboxError may be an OSError too
        raise
    except OSError as error:  # the agent has closed or replaced the folder
        return {"/": type(error).__name__}
    if len(names) > MAX_FILES:
        return {"/": f"{len(names)} names"}
    return dict(zip(names, await asyncio.gather(*(_text_of(sandbox, name) for name in names)), strict=True))


async def _text_of(sandbox: Sandbox, name: str) -> str:
    if name.endswith("/"):
        return "/"
    try:
        return _normalised((await sandbox.read(name, max_bytes=MAX_BYTES)).decode("utf-8", "replace"))
    except SandboxError:
        raise
    except (OSError, ValueError) as error:
        return f"/ {type(error).__name__}"


def _normalised(text: str) -> str:
    """Return the lines without spaces at their ends, and without empty ones at the end of the text."""
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())
