"""`agentgym/code-terminal-v1`: a shell on the files of a task folder of Harbor or Terminal-Bench."""

from __future__ import annotations

import asyncio
import base64
import re
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentgym import (
    Call,
    Checkpoint,
    Environment,
    Message,
    ObservedState,
    SandboxSpec,
    Task,
    TaskError,
    ToolError,
    Workspace,
    tool,
)
from agentgym.sandbox import Sandbox, Snapshot, rootfs

from ..bash import KEEPER, STATE
from ..transcript import transcript
from .base_images import base_images
from .disk import disk_of_task
from .folder import DISK_MIB, MEMORY_MIB, TerminalFolder
from .hacks import terminal_hacks
from .sandbox import INODES, PROCESSES, checked_builder, folder_of, open_task, playing
from .submission import MAX_INLINE, write_submission
from .task_network import TaskNetwork, checked_network, network_of_agent

COMMAND_S = 600.0
PIECE = 2**16
"""How many bytes of a solution's file one command writes; Linux takes 128 KiB in one argument."""
HANDED_IN = "Handed in: "
NOT_HANDED_IN = ("logs", "tests", "solution", STATE[1:], rootfs.INDEX_FOLDER[1:])
MAX_LINE = 2_000
OWN_PLACE = re.compile(rb"\$0|BASH_SOURCE|/solution")
DONE = Call("done", {})
SYSTEM = "You work in a shell. Do what is asked with commands, then call done."


class CodeTerminal(Environment):
    """A shell in a sandbox, on a task folder's files. Not isolated from each other: its commands share files and /tmp.

    Task parameters: `folder`, the path of a task folder of Harbor or Terminal-Bench on this host; `digest`, a hash
    of its content at the import; `images`, what is used for each image that its Dockerfile names; `network`, who
    may reach this host's package indexes: `none`, `tests` or `all`; `disk`, the MiB that the folder asks for and
    those that its sandboxes get; `build`, who builds and plays its image: `agentgym` or `docker`. The agent is root
    by name in the image that its Dockerfile makes, and sees neither tests nor solution. `done` submits all changed
    files; the reward `terminal_verifier` runs the tests on them in another sandbox.
    """

    sandbox = SandboxSpec(memory_mib=MEMORY_MIB, disk_mib=DISK_MIB, processes=PROCESSES, inodes=INODES)
    reward = "terminal_verifier"
    _folder: TerminalFolder
    _spec: SandboxSpec
    _workdir: str
    _network: TaskNetwork
    _shell: Sandbox
    _observed: ObservedState
    _spent_s: float  # wall time of all commands so far

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task.

        Raises: TaskError for a folder that cannot be read or built, or has changed since it was imported.
        """
        await self._open(task)
        return [Message("system", SYSTEM), *task.opening()]

    @tool(parallel=False, timeout_s=COMMAND_S + 30)
    async def bash(self, command: str) -> str:
        """Run a command in the shell."""
        if "\x00" in command:
            raise ToolError("The command holds a null character.")
        remaining = self._folder.agent_s - self._spent_s
        if remaining <= 0:
            raise ToolError(f"The {self._folder.agent_s:g} s for commands are used up. Call done.")
        argv = ["bash", "--noprofile", "--norc", "-c", KEEPER, "bash", command]
        limit = min(COMMAND_S, remaining)
        variables = self._network.variables(self._spec)
        result = await self._shell.exec(argv, cwd=self._workdir, env=variables, timeout_s=limit)
        self._spent_s += result.duration_s
        return self._observed.add(transcript(result, limit, max_chars=8_000))

    @tool(final=True, max_output_chars=MAX_INLINE + 10_000, parallel=False, timeout_s=120)
    async def done(self) -> str:
        """Say that everything is as it shall be."""
        snapshot = await self._shell.snapshot()
        return HANDED_IN + await asyncio.to_thread(write_submission, snapshot, _is_handed_in)

    async def state_key(self) -> str | None:
        """Hash of all files, which include the shell's state, and of the results seen."""
        return self._observed.key((await self._shell.snapshot()).id)

    async def workspace(self) -> Workspace | None:
        return Workspace(self._shell, self._workdir, "done")

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint({**self._observed.data(), "spent_s": self._spent_s}, await self._shell.snapshot())

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self._open(task, checkpoint.snapshot)
        self._observed.restore(checkpoint.data)
        self._spent_s = checkpoint.data["spent_s"]

    @classmethod
    def task_of(
        cls,
        path: str | Path,
        *,
        image: str = "",
        network: str = "tests",
        disk_mib: int = 0,
        build: str = "agentgym",
    ) -> dict[str, Any]:
        """Return the arguments of a `Task` for a task folder: `id`, `prompt`, `parameters`, `truth` and `tags`.

        Args:
            image: replaces the images that the Dockerfile names; `host` means this host's programs.
            network: who may reach this host's package indexes: `none`, `tests` that install something, or `all`, the
                agent too.
            build: who builds the image and plays it: `agentgym` in its own sandboxes, or `docker`.
            disk_mib: the most that the files of a sandbox may take; 0 for an eighth of this machine's memory.
        Raises: TaskError naming the folder and what is missing or not supported.
        """
        folder = TerminalFolder.read(Path(path).absolute())
        try:
            images = [asdict(image) for image in base_images(folder.dockerfile, image, checked_builder(build))]
        except TaskError as error:
            raise TaskError(f"{path}: {error}.") from error
        where = {"folder": str(Path(path).absolute()), "digest": folder.digest}
        return {
            "id": folder.name,
            "prompt": folder.instruction.strip(),
            "parameters": {
                **where,
                "images": images,
                "network": checked_network(network),
                "build": build,
                "disk": disk_of_task(folder.disk_mib, disk_mib),
            },
            "truth": where,
            "tags": folder.tags,
        }

    @classmethod
    def solution_of(cls, task: Task) -> list[Message]:
        """Return messages that run the solution of a task folder. A short script alone is run as a command, as an agent
        would. Raises: TaskError if the folder has no solution.
        """
        folder = folder_of(task)
        if not folder.solution:
            raise TaskError(f"{task.id}: its folder contains no solution.")
        if (line := _as_command(folder)) is not None:
            return [Message("assistant", "", (Call("bash", {"command": line}),)), Message("assistant", "", (DONE,))]
        commands = []
        for path, (data, _) in folder.solution.items():
            for start in range(0, max(len(data), 1), PIECE):
                piece = base64.b64encode(data[start : start + PIECE]).decode()
                code = f"p = pathlib.Path({f'/solution/{path}'!r}); p.parent.mkdir(parents=True, exist_ok=True); "
                code += f"p.open('{'ab' if start else 'wb'}').write(base64.b64decode('{piece}'))"
                commands.append(f"python3 -c {shlex.quote(f'import base64, pathlib; {code}')}")
        variables = [f"{name}={shlex.quote(value)}" for name, value in folder.solution_environment.items()]
        commands.append(" ".join([*variables, f"bash /solution/{folder.solution_script}"]))
        return [
            *(Message("assistant", "", (Call("bash", {"command": command}),)) for command in commands),
            Message("assistant", "", (DONE,)),
        ]

    @classmethod
    def reward_hacks(cls, task: Task) -> dict[str, list[Message]]:
        hacks = terminal_hacks(folder_of(task))
        return {
            what: [Message("assistant", "", (Call("bash", {"command": program}),)), Message("assistant", "", (DONE,))]
            for what, program in hacks.items()
        }

    # ---- inside ------------------------------------------------------------------------------------------------

    async def _open(self, task: Task, snapshot: Snapshot | None = None) -> None:
        self._folder, self._observed, self._spent_s = folder_of(task), ObservedState(), 0.0
        if self.backend is None:
            await self.open_sandbox()  # raises an error that says what is missing
        assert self.backend is not None
        self.backend = playing(self.backend, task)
        image = await open_task(self.backend, task, self._folder)
        self._workdir = image.workdir
        network = checked_network(task.parameters.get("network", "none"))
        self._network = await network_of_agent(network if self._folder.has_network else "none")
        self._spec = self._network.spec(image.spec)
        self._shell = await self.open_sandbox(self._spec, snapshot=snapshot)
        await self._network.prepare(self._shell)
        await image.start(self._shell)


def _as_command(folder: TerminalFolder) -> str | None:
    """Return a solution as one command; None if it is long, or depends on where its files are."""
    data, _ = folder.solution[folder.solution_script]
    if len(folder.solution) > 1 or folder.solution_environment or len(data) > MAX_LINE or OWN_PLACE.search(data):
        return None
    text = data.decode("utf-8", "replace").strip()
    return text.partition("\n")[2].strip() if text.startswith("#!") else text


def _is_handed_in(path: str, kind: str) -> bool:
    return not any(path == name or path.startswith(f"{name}/") for name in NOT_HANDED_IN)
