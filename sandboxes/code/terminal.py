"""`agentgym/code-terminal-v1`: a shell on the files of a task folder of Harbor or Terminal-Bench."""

from __future__ import annotations

import base64
import io
import json
import shlex
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agentgym import (
    Call,
    Checkpoint,
    Environment,
    GuestModule,
    GuestStopped,
    Message,
    ObservedState,
    SandboxError,
    SandboxSpec,
    Task,
    TaskError,
    ToolError,
    Workspace,
    tool,
)
from agentgym.sandbox import Sandbox, Snapshot, rootfs

from .bash import KEEPER
from .build_plan import STORE
from .terminal_folder import DISK_MIB, MEMORY_MIB, TerminalFolder
from .terminal_hacks import terminal_hacks
from .terminal_image import INODES, PROCESSES, built, chosen_image, image_of
from .transcript import transcript

COMMAND_S = 120.0
MAX_BYTES, MAX_FILES, MAX_CHARS = 32 * 2**20, 2_000, 1_400_000
AT_ONCE = 200  # number of names in one command line
HANDED_IN = "Handed in: "
NOT_HANDED_IN = ("logs", "tests", "solution")
DONE = Call("done", {})
ENTRIES = GuestModule(__package__, "guest_entries")
SYSTEM = "You work in a shell. Do what is asked with commands, then call done."


class CodeTerminal(Environment):
    """A shell in a sandbox, on a task folder's files. Not isolated from each other: its commands share files and /tmp.

    Task parameters: `folder`, the path of a task folder of Harbor or Terminal-Bench on this host; `digest`, a hash of
    its content at the import; `image`, to replace the image that its Dockerfile names. The agent sees neither tests nor
    solution. `done` submits the changed files outside /tmp; the reward `terminal_verifier` runs the tests on them in
    another sandbox.
    """

    sandbox = SandboxSpec(memory_mib=MEMORY_MIB, disk_mib=DISK_MIB, processes=PROCESSES, inodes=INODES)
    reward = "terminal_verifier"
    _folder: TerminalFolder
    _base: Snapshot
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
        result = await self._shell.exec(argv, cwd=self._folder.plan.workdir, timeout_s=limit)
        self._spent_s += result.duration_s
        return self._observed.add(transcript(result, limit, max_chars=8_000))

    @tool(final=True, max_output_chars=MAX_CHARS + 10_000, parallel=False, timeout_s=120)
    async def done(self) -> str:
        """Say that everything is as it shall be."""
        return HANDED_IN + await self._changes()

    async def state_key(self) -> str | None:
        """Hash of all files, which include the shell's state, and of the results seen."""
        return self._observed.key((await self._shell.snapshot()).id)

    async def workspace(self) -> Workspace | None:
        return Workspace(self._shell, self._folder.plan.workdir, "done")

    async def checkpoint(self) -> Checkpoint | None:
        return Checkpoint({**self._observed.data(), "spent_s": self._spent_s}, await self._shell.snapshot())

    async def restore(self, task: Task, checkpoint: Checkpoint, *, seed: int) -> None:
        await self._open(task, checkpoint.snapshot)
        self._observed.restore(checkpoint.data)
        self._spent_s = checkpoint.data["spent_s"]

    @classmethod
    def task_of(cls, path: str | Path, *, image: str = "") -> dict[str, Any]:
        """Return the arguments of a `Task` for a task folder: `id`, `prompt`, `parameters`, `truth` and `tags`.

        Args: `image` replaces the image that the Dockerfile names; `host` means this host's programs.
        Raises: TaskError naming the folder and what is missing or not supported.
        """
        folder = TerminalFolder.read(Path(path).absolute())
        try:
            image = chosen_image(image) if image else image_of(folder.plan.base)
        except TaskError as error:
            raise TaskError(f"{path}: {error}.") from error
        where = {"folder": str(Path(path).absolute()), "digest": folder.digest}
        base = {"asked": folder.plan.base, "used": image, "stand_in": rootfs.is_stand_in(image)}
        return {
            "id": folder.name,
            "prompt": folder.instruction.strip(),
            "parameters": {**where, "image": image, "base": base},
            "truth": where,
            "tags": folder.tags,
        }

    @classmethod
    def solution_of(cls, task: Task) -> list[Message]:
        """Return messages that run the solution of a task folder. Raises: TaskError if the folder has no solution."""
        folder = folder_of(task)
        if not folder.solution:
            raise TaskError(f"{task.id}: its folder contains no solution.")
        commands = []
        for path, (data, _) in folder.solution.items():
            code = f"p = pathlib.Path({f'/solution/{path}'!r}); p.parent.mkdir(parents=True, exist_ok=True); "
            code += f"p.write_bytes(base64.b64decode('{base64.b64encode(data).decode()}'))"
            commands.append(f"python3 -c {shlex.quote(f'import base64, pathlib; {code}')}")
        commands.append(f"bash /solution/{folder.solution_script}")
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
        spec, self._base = await built(self.backend, self._folder, str(task.parameters["image"]))
        self._shell = await self.open_sandbox(spec, snapshot=snapshot or self._base)

    async def _changes(self) -> str:
        """Return the changes since the beginning, as JSON: an archive of changed files, and the names of deleted files.

        Raises: ToolError if the changes are too many or too large, or the agent's processes use up the sandbox.
        """
        now, before = (await self._shell.snapshot()).entries, self._base.entries
        try:
            paths, *links = await ENTRIES.call(self._shell, "entries", STORE, timeout_s=60)
            executable = frozenset(map(str, paths))
            targets = {str(path): str(target) for path, target in links}
        except (GuestStopped, ValueError, TypeError) as error:
            raise ToolError("The files cannot be listed: end what runs, and remove files.") from error
        packed, gone, size, count = io.BytesIO(), _below_store(before.keys() - now.keys()), 0, 0
        with tarfile.open(fileobj=packed, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
            for path in _below_store(raw for raw in now if now[raw] != before.get(raw)):
                info = tarfile.TarInfo(path)
                data = b""
                if path in targets:
                    info.type, info.linkname = tarfile.SYMTYPE, targets[path]
                else:
                    try:
                        data = await self._shell.read(f"{STORE}/{path}", max_bytes=MAX_BYTES)
                        info.mode = 0o755 if path in executable else 0o644
                    except IsADirectoryError:
                        info.type = tarfile.DIRTYPE
                    except SandboxError:  # SandboxError may be an OSError too
                        raise
                    except (OSError, ValueError) as error:
                        raise ToolError(f"/{path} cannot be handed in. Remove it. ({error})") from error
                size, count = size + len(data), count + 1
                if size > MAX_BYTES or count > MAX_FILES:
                    raise ToolError(f"More than {MAX_FILES} files or {MAX_BYTES} bytes were changed. Remove some.")
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        text = json.dumps({"archive": base64.b64encode(packed.getvalue()).decode(), "gone": gone})
        if len(text) > MAX_CHARS:
            raise ToolError(
                f"The changes are {len(text)} characters when packed; at most {MAX_CHARS} are taken. Remove some."
            )
        return text


def _below_store(names: Iterable[bytes]) -> list[str]:
    """Return the sorted paths to submit, relative to the store, out of a snapshot's paths."""
    prefix = f"{STORE}/".lstrip("/").encode()
    inside = (name.lstrip(b"/").removeprefix(prefix) for name in names if name.lstrip(b"/").startswith(prefix))
    paths = sorted(name.decode("utf-8", "surrogateescape") for name in inside)
    return [path for path in paths if path.partition("/")[0] not in NOT_HANDED_IN]


def folder_of(task: Task) -> TerminalFolder:
    """Read the folder of a task. Raises: TaskError if it is missing, or has changed since it was imported."""
    path, digest = task.parameters.get("folder"), task.parameters.get("digest")
    if not isinstance(path, str) or not isinstance(task.parameters.get("image"), str):
        raise TaskError(
            f"{task.id} needs parameters 'folder' and 'image'. Import it by `agentgym tasks import harbor`."
        )
    folder = TerminalFolder.read(path)
    if digest != folder.digest:
        raise TaskError(f"{task.id}: {path} has changed since it was imported. Import it again.")
    return folder


async def put(sandbox: Sandbox, submission: str) -> None:
    """Apply a submission of `done`. Raises: ValueError if `done` cannot have written it; OSError; SandboxError."""
    data: Mapping[str, Any] = json.loads(submission)
    with tarfile.open(fileobj=io.BytesIO(base64.b64decode(data["archive"])), mode="r:gz") as archive:
        members = archive.getmembers()
        folders = [member.name for member in members if member.isdir()]
        for command, names in (["rm", "-rf"], data["gone"]), (["mkdir", "-p"], folders):
            for start in range(0, len(names), AT_ONCE):
                await sandbox.exec([*command, "--", *(f"{STORE}/{name}" for name in names[start : start + AT_ONCE])])
        for member in members:
            if member.issym():
                path = f"{STORE}/{member.name}"
                await sandbox.exec(["rm", "-rf", "--", path])
                await sandbox.exec(["ln", "-s", "--", member.linkname, path])
            elif (content := archive.extractfile(member)) is not None:
                await sandbox.write(f"{STORE}/{member.name}", content.read(), member.mode)
