"""The sandbox of one episode, opened with the task's files when a tool first needs it.

An agent that only talks uses no sandbox. A checkpoint is the sandbox's snapshot, or empty if none was opened.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentgym import Checkpoint, Environment, GuestModule, SandboxSpec, Task, TaskError, ToolError, Workspace
from agentgym.sandbox import ExecResult, Sandbox

from .transcript import last_lines

RUN_S = 10.0
MAX_PATH = 200
_SUBMITTED = "Submitted:"
_TESTS = GuestModule(__package__, "guest_tests")
_FILES = GuestModule(__package__, "guest_files")


class Workbench:
    """Runs an environment's programs in a sandbox opened at first use.

    Args:
        environment: opens the sandbox and closes it.
        files: the initial files: texts by path below /work.
        programs: programs that the image must have; checked when the sandbox is opened.
        spec: the sandbox's spec; by default the environment's own.
        checkpoint: a checkpoint of another workbench on the same task, from which to continue.
    """

    def __init__(
        self,
        environment: Environment,
        files: Mapping[str, str],
        *,
        programs: Sequence[str] = (),
        spec: SandboxSpec | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self._environment, self._files, self._programs, self._spec = environment, dict(files), programs, spec
        self._snapshot = checkpoint.snapshot if checkpoint else None
        self._sandbox: Sandbox | None = None
        self._opening = asyncio.Lock()
        self._is_shared = False  # whether an agent program may change the files at any time
        given = json.dumps(self._files, sort_keys=True).encode()
        self._key: str | None = checkpoint.data["key"] if checkpoint else hashlib.sha256(given).hexdigest()[:32]

    async def sandbox(self) -> Sandbox:
        """Return the sandbox, opened at the first use. Raises: TaskError if its image lacks a program; SandboxError."""
        async with self._opening:
            if self._sandbox is None:
                sandbox = await self._environment.open_sandbox(self._spec, snapshot=self._snapshot)
                if self._programs:
                    await _check_programs(sandbox, self._programs)
                if self._snapshot is None:
                    await asyncio.gather(*(sandbox.write(path, text.encode()) for path, text in self._files.items()))
                self._sandbox = sandbox
            return self._sandbox

    async def command(
        self, argv: Sequence[str], *, stdin: str = "", timeout_s: float = RUN_S, max_output_bytes: int = 65_536
    ) -> ExecResult:
        """Run a program in /work."""
        self._key = None
        raw = stdin.encode("utf-8", "surrogatepass")
        sandbox = await self.sandbox()
        return await sandbox.exec(argv, stdin=raw, timeout_s=timeout_s, max_output_bytes=max_output_bytes)

    async def python(self, code: str, *, session: str | None = None, timeout_s: float = RUN_S) -> ExecResult:
        """Run Python in /work; a session keeps its variables."""
        self._key = None
        return await (await self.sandbox()).run_python(code, session=session, timeout_s=timeout_s)

    async def run_tests(self, code: str, setup: str, tests: Sequence[str]) -> ExecResult:
        """Try code on assertions that the agent may see. The output says which fail, and how."""
        self._key = None
        return await _TESTS.run(await self.sandbox(), "try_tests", code, setup, list(tests), timeout_s=RUN_S)

    async def check_compiles(self, code: str) -> None:
        """Compile code in the sandbox: untrusted code can break the interpreter that compiles it. Raises: ToolError."""
        check = await self.python(f"compile({code!a}, 'submission.py', 'exec')")
        if not check.ok and b"Error" in check.stderr:
            raise ToolError(f"The code does not compile: {last_lines(check.stderr, 3)}")

    async def write(self, path: str, text: str) -> None:
        """Write a file. Raises: ToolError if the path cannot be written."""
        self._key = None
        try:
            await (await self.sandbox()).write(path, text.encode("utf-8", "surrogatepass"))
        except OSError as error:
            raise ToolError(f"{path} cannot be written: {error.strerror or error}.") from error

    async def read(self, path: str) -> str:
        """Return the text of a file. Raises: ToolError if it is missing or too large."""
        try:
            raw = await (await self.sandbox()).read(path, max_bytes=2**20)
        except (OSError, ValueError) as error:
            raise ToolError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}.") from error
        return raw.decode("utf-8", "replace")

    async def submission(self) -> str:
        """Return all files under /work as text for a final result, which rewards read.

        Raises: ToolError if they are too many or too large.
        """
        self._key = None
        result = await _FILES.run(await self.sandbox(), "collect", "/work", timeout_s=RUN_S, max_output_bytes=2**21)
        if not result.ok or result.truncated:
            raise ToolError(f"The files cannot be handed in: {result.stderr.decode('utf-8', 'replace')[-300:].strip()}")
        return f"{_SUBMITTED} {result.text.strip()}"

    async def workspace(self, hand_in: str) -> Workspace:
        """Return the workspace of an agent program: /work. `hand_in`: the tool that hands the files in."""
        self._is_shared = True
        return Workspace(await self.sandbox(), hand_in=hand_in)

    async def state_key(self) -> str:
        """Return a hash of the files; before the sandbox is opened, of the task's own files."""
        if self._key is None or self._is_shared:
            self._key = (await (await self.sandbox()).snapshot()).id[:32]
        return self._key

    async def checkpoint(self, **data: Any) -> Checkpoint:
        """Return the current files, and other data that the environment must keep."""
        if self._sandbox is None:
            return Checkpoint({**data, "key": self._key}, self._snapshot)
        snapshot = await self._sandbox.snapshot()
        self._key = snapshot.id[:32] if self._is_shared or self._key is None else self._key
        return Checkpoint({**data, "key": self._key}, snapshot)


async def _check_programs(sandbox: Sandbox, programs: Sequence[str]) -> None:
    """Check that the sandbox's image has the programs. Raises: TaskError naming the missing ones."""
    script = 'for p; do command -v "$p" >/dev/null || echo "$p"; done'
    result = await sandbox.exec(["sh", "-c", script, "sh", *programs])
    if missing := result.text.split():
        raise TaskError(
            f"This task needs {', '.join(missing)}, which the sandbox's image does not have. Install it (Debian "
            "packages: gcc, g++, nodejs, iverilog), or leave out the tasks with that tag."
        )


def files_of(task: Task) -> dict[str, str]:
    """Return the task's `parameters["files"]`. Raises: TaskError if they are not texts by path below /work."""
    files = task.parameters.get("files", {})
    if not isinstance(files, Mapping) or not all(
        isinstance(path, str) and isinstance(text, str) and _is_below(path) for path, text in files.items()
    ):
        raise TaskError(
            f"{task.id}: parameters['files'] must map paths such as 'src/a.py' to texts, but it is {files!r:.200}."
        )
    return dict(files)


def assertions_of(task: Task) -> list[str]:
    """Return the task's `parameters["tests"]`. Raises: TaskError if they are not a list of texts."""
    tests = task.parameters.get("tests", [])
    if not (isinstance(tests, list | tuple) and all(isinstance(test, str) for test in tests)):
        raise TaskError(f"{task.id}: parameters['tests'] must be a list of assertions as text, not {tests!r:.200}.")
    return list(tests)


def text_of(task: Task, name: str, default: str = "") -> str:
    """Return a parameter of the task that must be text. Raises: TaskError if it is not."""
    text = task.parameters.get(name, default)
    if not isinstance(text, str):
        raise TaskError(f"{task.id}: parameters[{name!r}] must be text, not {text!r:.200}.")
    return text


def checked_path(path: str) -> str:
    """Return the path if it is below /work. Raises: ToolError with an example of a path."""
    path = path.removeprefix("/work/").removeprefix("./") or "."
    if not _is_below(path):
        raise ToolError(f"{path[:80]!r} is no path here. Paths are relative to /work, such as 'src/main.py'.")
    return path


def _is_below(path: str) -> bool:
    parts = path.split("/")
    return 0 < len(path) <= MAX_PATH and path[0] != "/" and ".." not in parts and path.isprintable()
