"""`agentgym/code-terminal-v1`: a shell on the files of a task folder of Harbor or Terminal-Bench."""

from __future__ import annotations

import asyncio
import base64
import math
import re
import shlex
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from agentgym import (
    Call,
    Checkpoint,
    Environment,
    Message,
    ObservedState,
    Result,
    ResultStatus,
    SandboxError,
    SandboxSpec,
    Task,
    TaskError,
    ToolError,
    Workspace,
    shared_backend,
    tool,
)
from agentgym.sandbox import Sandbox, Snapshot, rootfs

from ..bash import KEEPER, STATE
from ..transcript import last_lines, transcript
from .artifacts import ARTIFACTS
from .base_images import BaseImage, base_images
from .disk import disk_of_task
from .folder import DISK_MIB, MEMORY_MIB, TaskStep, TerminalFolder
from .hacks import terminal_hacks
from .judging import Submission, rewards_of
from .sandbox import INODES, PROCESSES, checked_builder, folder_of, open_task, playing
from .submission import MAX_INLINE, MAX_TRAVELLING, write_submission
from .task_network import TaskNetwork, checked_network, network_of_agent

COMMAND_S, BUILD_S = 600.0, 3_600.0
PIECE = 2**16
"""How many bytes of a solution's file one command writes; Linux takes 128 KiB in one argument."""
HANDED_IN, ENDS = "Handed in: ", "Handed in, and the task ends because the tests do not pass: "
SETUP = "setup.sh"
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
    _index: int  # of the step
    _task: Task
    _spec: SandboxSpec
    _workdir: str
    _network: TaskNetwork
    _shell: Sandbox
    _observed: ObservedState
    _spent_s: float  # wall time of all commands of the step so far

    async def reset(self, task: Task, *, seed: int) -> list[Message]:
        """Begin a task.

        Raises: TaskError for a folder that cannot be read or built, or has changed since it was imported.
        """
        if self.is_remote and len(folder_of(task).steps) > 1:
            raise TaskError(
                f"{task.id} has several steps, and what is handed in of each stays on this machine, but its episodes "
                "are judged on another one. Play it where it is judged, with machine.engine = local."
            )
        await self._open(task)
        if fault := await self._begin(0):
            raise TaskError(f"{task.id}: {fault}")
        return [Message("system", SYSTEM), *task.opening()]

    @tool(parallel=False, timeout_s=COMMAND_S + 30)
    async def bash(self, command: str) -> str:
        """Run a command in the shell."""
        if "\x00" in command:
            raise ToolError("The command holds a null character.")
        remaining = self._step.agent_s - self._spent_s
        if remaining <= 0:
            raise ToolError(f"The {self._step.agent_s:g} s for commands are used up. Call done.")
        argv = ["bash", "--noprofile", "--norc", "-c", KEEPER, "bash", command]
        limit = min(COMMAND_S, remaining)
        variables = self._network.variables(self._spec)
        result = await self._shell.exec(argv, cwd=self._workdir, env=variables, timeout_s=limit)
        self._spent_s += result.duration_s
        return self._observed.add(transcript(result, limit, max_chars=8_000))

    @tool(final=True, max_output_chars=MAX_TRAVELLING + 10_000, parallel=False, timeout_s=120)
    async def done(self) -> str:
        """Say that everything is as it shall be."""
        if self.ended:
            raise ToolError("The task has ended.")
        snapshot, is_last = await self._shell.snapshot(), self._step is self._folder.steps[-1]
        max_inline = MAX_TRAVELLING if self.is_remote else MAX_INLINE
        text = await asyncio.to_thread(write_submission, snapshot, _is_handed_in, max_inline if is_last else 0)
        if is_last:
            return HANDED_IN + text
        if not await self._earns_next_step(text):
            self.end_episode()
            return ENDS + text
        if fault := await self._begin(self._index + 1):
            self.end_episode()
            return f"{HANDED_IN}{text}\n\nThe task ends: {fault}"
        return self._observed.add(f"{HANDED_IN}{text}\n\n{self._step.instruction}")

    async def state_key(self) -> str | None:
        """Hash of all files, which include the shell's state, and of the results seen."""
        return self._observed.key((await self._shell.snapshot()).id)

    async def workspace(self) -> Workspace | None:
        return Workspace(self._shell, self._workdir, "done") if len(self._folder.steps) == 1 else None

    async def checkpoint(self) -> Checkpoint | None:
        data = {**self._observed.data(), "spent_s": self._spent_s, "step": self._index}
        return Checkpoint(data, await self._shell.snapshot())

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self._open(task, checkpoint.snapshot)
        self._observed.restore(checkpoint.data)
        self._set_step(checkpoint.data["step"], spent_s=checkpoint.data["spent_s"])

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
            images = [asdict(each) for each in _images(folder, image, checked_builder(build))]
        except TaskError as error:
            raise TaskError(f"{path}: {error}.") from error
        where = {"folder": str(Path(path).absolute()), "digest": folder.digest}
        return {
            "id": folder.name,
            "prompt": folder.steps[0].instruction,
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
        return [message for step in folder_of(task).steps for message in _solved(task, step)]

    @classmethod
    def reward_hacks(cls, task: Task) -> dict[str, list[Message]]:
        steps = folder_of(task).steps
        hacks = {
            what: [message for step in steps for message in _commands(terminal_hacks(step)[what])]
            for what in terminal_hacks(steps[0])
        }
        if len(steps) > 1 and all(step.solution for step in steps[:-1]):
            solved = [message for step in steps[:-1] for message in _solved(task, step)]
            for what, program in terminal_hacks(steps[-1]).items():
                hacks[f"{what}, after the other steps"] = [*solved, *_commands(program)]
        return hacks

    # ---- inside ------------------------------------------------------------------------------------------------

    async def _open(self, task: Task, snapshot: Snapshot | None = None) -> None:
        self._folder, self._observed, self._task = folder_of(task), ObservedState(), task
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
        if snapshot is None and any(step.artifacts for step in self._folder.steps):
            await self._shell.exec(["mkdir", "-p", ARTIFACTS], cwd="/")
        await image.start(self._shell)

    @property
    def _step(self) -> TaskStep:
        return self._folder.steps[self._index]

    def _set_step(self, index: int, *, spent_s: float = 0.0) -> None:
        """Continue with a step. Of the last one, `done` ends the episode; before, it may take as long as the tests."""
        self._index, self._spent_s = index, spent_s
        if len(self._folder.steps) == 1:
            return
        done, is_last = type(self).tools[DONE.name], index == len(self._folder.steps) - 1
        timeout_s = done.options.timeout_s if is_last else 4 * self._step.verifier_s + BUILD_S
        options = replace(done.options, final=is_last, timeout_s=timeout_s)
        self.tools = {**self.tools, DONE.name: replace(done, options=options)}

    async def _begin(self, index: int) -> str:
        """Begin a step: put its files into the working folder, and run their setup.sh.

        Returns: why that failed; empty if it did not.
        """
        self._set_step(index)
        files, script = self._step.files, f"{self._workdir}/{SETUP}"
        try:
            for path, (data, mode) in files.items():
                await self._shell.write(f"{self._workdir}/{path}", data, mode)
        except SandboxError:
            raise
        except OSError as error:
            return f"a file of its step {self._step.name} cannot be written: {error}"
        if SETUP not in files:
            return ""
        variables = self._network.variables(self._spec)
        result = await self._shell.exec(["bash", script], cwd=self._workdir, env=variables, timeout_s=COMMAND_S)
        return "" if result.ok else f"{SETUP} of its step {self._step.name} failed: {last_lines(result.stderr, 5)}"

    async def _earns_next_step(self, submission: str) -> bool:
        """Return whether what is handed in of the current step earns what its `min_reward` says."""
        least = self._step.least_rewards
        if not least:
            return True
        rewards = await rewards_of(shared_backend("namespaces"), self._task, self._index, Submission(submission))
        return all(rewards.get(key, -math.inf) >= value for key, value in least.items())


def submissions_in(results: Iterable[Result]) -> tuple[list[str], bool]:
    """Return what `done` has handed in, step by step, and whether the last earned too little for a further step."""
    texts: list[str] = []
    for result in results:
        text, is_done = str(result.content), result.name == DONE.name and result.status is ResultStatus.OK
        if is_done and text.startswith((HANDED_IN, ENDS)):
            texts.append(text.removeprefix(ENDS).removeprefix(HANDED_IN).partition("\n")[0])
            if text.startswith(ENDS):
                return texts, True
    return texts, False


def _commands(*commands: str) -> list[Message]:
    """Return the messages of an agent that runs commands and hands in what they leave."""
    calls = [*(Call("bash", {"command": command}) for command in commands), DONE]
    return [Message("assistant", "", (call,)) for call in calls]


def _solved(task: Task, step: TaskStep) -> list[Message]:
    """Return the messages of an agent that knows the solution of a step. Raises: TaskError without one."""
    if not step.solution:
        name = f" of its step {step.name}" if step.name else ""
        raise TaskError(f"{task.id}: its folder contains no solution{name}.")
    if (line := _as_command(step)) is not None:
        return _commands(line)
    commands = []
    for path, (data, _) in step.solution.items():
        for start in range(0, max(len(data), 1), PIECE):
            piece = base64.b64encode(data[start : start + PIECE]).decode()
            code = f"p = pathlib.Path({f'/solution/{path}'!r}); p.parent.mkdir(parents=True, exist_ok=True); "
            code += f"p.open('{'ab' if start else 'wb'}').write(base64.b64decode('{piece}'))"
            commands.append(f"python3 -c {shlex.quote(f'import base64, pathlib; {code}')}")
    variables = [f"{name}={shlex.quote(value)}" for name, value in step.solution_environment.items()]
    return _commands(*commands, " ".join([*variables, f"bash /solution/{step.solution_script}"]))


def _as_command(step: TaskStep) -> str | None:
    """Return a solution as one command; None if it is long, or depends on where its files are."""
    data, _ = step.solution[step.solution_script]
    if len(step.solution) > 1 or step.solution_environment or len(data) > MAX_LINE or OWN_PLACE.search(data):
        return None
    text = data.decode("utf-8", "replace").strip()
    return text.partition("\n")[2].strip() if text.startswith("#!") else text


def _images(folder: TerminalFolder, image: str, builder: str) -> list[BaseImage]:
    """Return the images on which those of a folder are built, each once."""
    setups = [folder, *(step.verifier for step in folder.steps if step.verifier is not None)]
    images = [each for setup in setups for each in base_images(setup.dockerfile, image, builder)]
    return list(dict.fromkeys(images))


def _is_handed_in(path: str, kind: str) -> bool:
    if f"/{path}/".startswith(f"{ARTIFACTS}/"):
        return True
    if kind == "d" and ARTIFACTS.startswith(f"/{path}/"):
        return True
    return not any(path == name or path.startswith(f"{name}/") for name in NOT_HANDED_IN)
